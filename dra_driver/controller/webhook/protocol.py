"""AdmissionReviews of admission.k8s.io/v1: what comes in, and what goes out.

Read as far as the webhook needs it and no further: an unknown field is nothing to fail on, a missing one is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_driver import strictjson

API_VERSION = "admission.k8s.io/v1"
_MAX_WARNINGS = 16
_MAX_WARNING = 512  # characters; beyond 4,096 of all together the API server cuts each to 256
_MAX_MESSAGE = 8192
_MAX_UID = 256
Object = Mapping[str, Any]


class MalformedError(Exception):
    """The body is no AdmissionReview; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """A write that somebody asks for."""

    uid: str
    kind: str
    api_version: str  # of the object, as it is sent
    operation: str
    namespace: str  # empty for what has none
    object: Object
    old: Object  # empty on CREATE


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason to refuse, at the path of a field."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Allowed, unless there are causes."""

    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.causes


def decode(body: bytes) -> Request:
    """The request in the body of a call; MalformedError where there is none."""
    try:
        review = strictjson.loads(body)
    except ValueError as error:
        raise MalformedError(f"the body is no JSON: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise MalformedError("the body is no AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        raise MalformedError(f"the AdmissionReview is not of {API_VERSION}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise MalformedError("the AdmissionReview has no request")
    kind, uid = request.get("kind"), request.get("uid")
    if not isinstance(uid, str) or not uid or len(uid) > _MAX_UID or not uid.isprintable():
        raise MalformedError("the request has no uid")
    if not isinstance(kind, dict):
        raise MalformedError("the request has no kind")
    group, version = _text(kind, "group"), _text(kind, "version")
    return Request(
        uid,
        _text(kind, "kind"),
        f"{group}/{version}" if group else version,
        _text(request, "operation"),
        _text(request, "namespace"),
        _object(request, "object"),
        _object(request, "oldObject"),
    )


def encode(uid: str, verdict: Verdict) -> bytes:
    """The answer, as the body of the response."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if verdict.causes:
        told = "; ".join(
            f"{cause.path}: {cause.message}" if cause.path else cause.message for cause in verdict.causes
        )
        # No details: kubectl would print those alone, and not who says so.
        response["status"] = {"code": 422, "reason": "Invalid", "message": _cut(told, _MAX_MESSAGE)}
    if verdict.warnings:
        shown = [_cut(warning, _MAX_WARNING) for warning in verdict.warnings[:_MAX_WARNINGS]]
        if more := len(verdict.warnings) - _MAX_WARNINGS:
            shown += [f"and {more} more"] if more > 0 else []
        response["warnings"] = shown
    return json.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}).encode()


def _cut(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _text(fields: Object, name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise MalformedError(f"{name} of the request is no text")
    return value


def _object(request: Object, name: str) -> Object:
    value = request.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"{name} of the request is no object")
    return value
