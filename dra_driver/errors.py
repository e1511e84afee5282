"""The errors of this project: one class per reaction, not one per cause.

    DriverError
    ├── UsageError           a flag, file or profile is wrong: the user mends it; exit code 2
    ├── UnavailableError     an outside thing (API server, NVML, disk) does not answer: try again later
    ├── HardwareError        a GPU refuses or is gone: somebody looks at the node
    ├── ClaimError           this claim cannot be prepared as it stands
    │   ├── ConfigError      its opaque configuration is wrong: the message names the JSON path
    │   └── ConflictError    another claim holds the device: the message names both
    ├── RecordError          a stored record is damaged: it is set aside, alone
    └── ApiError             the API server answered no (see `dra_driver.kube.errors`)

Texts are read by people, in Pod events behind three prefixes: one sentence that says what failed, on which
object, and what to do; no newline, and nothing (time, address, attempt) that changes from try to try, since
events are merged by their text. Foreign exceptions are translated at the one module that imports the foreign
library, and chained with `from`.
"""


class DriverError(Exception):
    """The root of all errors that this project raises on purpose."""


class UsageError(DriverError):
    """What the user gave (flag, file, profile) is wrong."""


class UnavailableError(DriverError):
    """Something outside does not answer now; the same call may succeed later."""


class HardwareError(DriverError):
    """A GPU, or the driver under it, refuses."""


class ClaimError(DriverError):
    """A claim cannot be prepared as it stands."""


class ConfigError(ClaimError):
    """A claim's or class's opaque configuration is wrong."""


class ConflictError(ClaimError):
    """A device that the claim was given is held by another claim."""


class RecordError(DriverError):
    """A stored record cannot be read or does not match its checksum."""


class ApiError(DriverError):
    """The API server refused a request."""


def one_line(error: BaseException, limit: int = 1024) -> str:
    """The text of `error` as one line of at most `limit` characters, fit for an event or a gRPC answer."""
    try:
        text = " ".join(str(error).split()) or type(error).__name__
    except Exception:  # noqa: BLE001 - whatever a __str__ raises: this is where errors are told
        text = type(error).__name__
    text = text.encode(errors="replace").decode()  # half a surrogate is no text on the wire
    return text if len(text) <= limit else text[: limit - 3] + "..."
