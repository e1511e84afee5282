"""Driver and CUDA versions as the semantic versions that ResourceSlices carry.

NVIDIA writes "580.65.06"; semver 2.0.0 knows no leading zeros and always three parts, and the API server
refuses a slice whose version attribute breaks either rule. So what is published is "580.65.6", with the raw
string beside it in an attribute of its own.
"""

import re

_PARTS = re.compile(r"\s*[vV]?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?![\d.])")
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?\Z",
    re.ASCII,
)


def is_semver(text: str) -> bool:
    """Whether `text` is a version by semver.org 2.0.0, the rule of version attributes."""
    return _SEMVER.match(text) is not None


def driver_semver(raw: str) -> str | None:
    """'580.65.06' -> '580.65.6', '550.54' -> '550.54.0'; None where no version can be read."""
    match = _PARTS.match(raw)
    if match is None:
        return None
    return ".".join(str(int(part or 0)) for part in match.groups())


def cuda_semver(number: int) -> str:
    """NVML's integer CUDA version, 1000 * major + 10 * minor: 12040 -> '12.4.0'."""
    return f"{number // 1000}.{number % 1000 // 10}.0"
