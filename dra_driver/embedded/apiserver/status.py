"""The API server's refusals: metav1.Status objects with the real server's reasons, codes, details and texts.

Clients decide by `reason` and `code`, and people grep for the texts, so both are the real ones. One exception
class carries them all, as a Status does on the wire; constructors below are named after apimachinery's
api/errors.
"""

from collections.abc import Sequence
from typing import Any

from dra_driver.errors import ApiError
from dra_driver.kube.resources import Resource
from dra_driver.resource.problems import Problem

# The error types of apimachinery's field package, by the first words of a problem's text.
_CAUSES = {
    "Required value": "FieldValueRequired",
    "Duplicate value": "FieldValueDuplicate",
    "Unsupported value": "FieldValueNotSupported",
    "Not found": "FieldValueNotFound",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
}


class StatusError(ApiError):
    """A request refused, with what a Status object says of it."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    def status(self) -> dict[str, Any]:
        """The Status object that goes over the wire."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = str(self)
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


def qualified(name: str, group: str) -> str:
    """A resource or kind with its group, as texts name it: "resourceclaims.resource.k8s.io", "pods"."""
    return f"{name}.{group}" if group else name


def _details(resource: Resource, name: str, kind: str | None = None) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def success(resource: Resource, name: str, uid: str) -> dict[str, Any]:
    """The answer to a DELETE of a kind whose last state is not returned."""
    details = {**_details(resource, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(resource: Resource, name: str) -> StatusError:
    text = f'{qualified(resource.plural, resource.group)} "{name}" not found'
    return StatusError(404, "NotFound", text, _details(resource, name))


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, {})


def already_exists(resource: Resource, name: str) -> StatusError:
    text = f'{qualified(resource.plural, resource.group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, _details(resource, name))


def conflict(
    resource: Resource, name: str, why: str | None = None, *, kind: str | None = None
) -> StatusError:
    """Lost an optimistic lock, or a precondition; `kind` replaces the resource's plural in text and details."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    text = f'Operation cannot be fulfilled on {qualified(kind or resource.plural, resource.group)} "{name}": {why}'
    return StatusError(409, "Conflict", text, _details(resource, name, kind))


def forbidden(
    resource: Resource, name: str, why: str, causes: list[dict[str, str]] | None = None
) -> StatusError:
    text = f'{qualified(resource.plural, resource.group)} "{name}" is forbidden: {why}'
    details = _details(resource, name)
    return StatusError(403, "Forbidden", text, {**details, "causes": causes} if causes else details)


def bad_request(text: str) -> StatusError:
    return StatusError(400, "BadRequest", text)


def internal(text: str) -> StatusError:
    """What the real server answers where its code returns a plain error: 500 without a reason."""
    return StatusError(500, "", text)


def expired(text: str) -> StatusError:
    return StatusError(410, "Expired", text)


def invalid(kind: str, group: str, name: str, problems: Sequence[Problem]) -> StatusError:
    """An object (or options) against the rules; every problem is a cause."""
    texts = list(dict.fromkeys(f"{problem.path}: {problem.message}" for problem in problems))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [
        {
            "reason": _CAUSES.get(problem.message.split(":", 1)[0], "FieldValueInvalid"),
            "message": problem.message,
            "field": problem.path,
        }
        for problem in problems
    ]
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    text = f'{qualified(kind, group)} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", text, {**details, "causes": causes})


def invalid_options(options: str, path: str, message: str) -> StatusError:
    """A query parameter of the wrong kind: `options` is CreateOptions, PatchOptions, ListOptions..."""
    return invalid(options, "meta.k8s.io", "", [Problem(path, message)])


def too_many_requests(retry_after: int) -> StatusError:
    text = "Too many requests, please try again later."
    return StatusError(429, "TooManyRequests", text, {"retryAfterSeconds": retry_after})
