"""What the API server can answer instead of an object, as one class per reaction.

    ApiError
    └── ResponseError              .status, .reason, .details as in the answer's Status object
        ├── BadRequestError        400, 405, 406, 413, 415: never send this again unchanged
        ├── UnauthorizedError      401: credentials are wrong or have expired
        ├── ForbiddenError         403: RBAC or an admission policy says no
        ├── NotFoundError          404
        ├── AlreadyExistsError     409 on create
        ├── ObjectConflictError    409 otherwise: somebody else wrote the object; read it again
        ├── GoneError              410: the resource version is too old; list again
        ├── InvalidError           422: the object breaks a rule; never send it again unchanged
        ├── TooManyRequestsError   429: `retry_after` says when to come back
        └── ServerError            5xx: try again later

A server that does not answer at all is `dra_driver.errors.UnavailableError`. Texts start with what was tried
("cannot update ResourceSlice x") and end with the server's own message, since that one names the rule, the
permission or the webhook.
"""

from collections.abc import Mapping
from typing import Any

from dra_driver import strictjson
from dra_driver.errors import ApiError

_MAX_FOREIGN_TEXT = 256  # of an answer that is no Status: a proxy's HTML page helps nobody in a log line
_MAX_RETRY_SECONDS = 300.0  # who asks for more has made a mistake, and is asked again nevertheless
_UNPROCESSABLE = 422


class ResponseError(ApiError):
    """The API server answered with something other than success."""

    def __init__(
        self, message: str, *, status: int, reason: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details = dict(details) if details else None


class BadRequestError(ResponseError):
    """The request itself is wrong."""


class UnauthorizedError(ResponseError):
    """The API server does not know us."""


class ForbiddenError(ResponseError):
    """We may not do this."""


class NotFoundError(ResponseError):
    """There is no such object, or no such resource."""


class AlreadyExistsError(ResponseError):
    """An object of this name exists."""


class ObjectConflictError(ResponseError):
    """The object changed since it was read, or a precondition does not hold."""


class GoneError(ResponseError):
    """The server no longer knows this resource version."""


class InvalidError(ResponseError):
    """The object breaks a rule of its type, or an admission policy's."""


class TooManyRequestsError(ResponseError):
    """The server sheds load."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason, details=details)
        self.retry_after = retry_after  # seconds


class ServerError(ResponseError):
    """The server failed."""


_BY_STATUS: dict[int, type[ResponseError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ObjectConflictError,
    410: GoneError,
    _UNPROCESSABLE: InvalidError,
}


def from_answer(attempt: str, status: int, body: bytes, retry_after: str | None = None) -> ResponseError:
    """The error for an answer; `attempt` is what was tried, `retry_after` the header of that name."""
    try:
        content = strictjson.loads_plain(body)
    except ValueError:
        content = None
    if isinstance(content, dict) and content.get("kind") == "Status":
        return from_status(attempt, content, status=status, retry_after=retry_after)
    text = body[: 4 * _MAX_FOREIGN_TEXT].decode(errors="replace")
    text = " ".join(text.split())[:_MAX_FOREIGN_TEXT] or "no text"
    return _make(attempt, text, status, "", None, _seconds(retry_after))


def from_status(
    attempt: str, body: Mapping[str, Any], *, status: int = 500, retry_after: str | None = None
) -> ResponseError:
    """The error for a Status object, also one that came as the last event of a watch."""
    details, code = body.get("details"), body.get("code")
    if not isinstance(details, dict):
        details = {}
    message = " ".join(str(body.get("message") or body.get("reason") or "no message").split())
    seconds = _seconds(retry_after)
    if seconds is None:
        seconds = _seconds(details.get("retryAfterSeconds"))
    known = code if isinstance(code, int) and code else status
    return _make(attempt, message, known, str(body.get("reason") or ""), details, seconds)


def _make(
    attempt: str,
    message: str,
    status: int,
    reason: str,
    details: Mapping[str, Any] | None,
    after: float | None,
) -> ResponseError:
    text = f"cannot {attempt}: {message} ({status})"
    if status == 429:
        return TooManyRequestsError(text, status=status, reason=reason, details=details, retry_after=after)
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExistsError(text, status=status, reason=reason, details=details)
    if status >= 500:
        kind: type[ResponseError] = ServerError
    elif status >= 400:
        kind = _BY_STATUS.get(status, BadRequestError)
    else:
        kind = ResponseError
    return kind(text, status=status, reason=reason, details=details)


def _seconds(text: object) -> float | None:
    """Retry-After as seconds, within reason; its other form, a date, is one that no API server sends."""
    try:
        return min(max(0.0, float(str(text))), _MAX_RETRY_SECONDS)
    except ValueError:
        return None
