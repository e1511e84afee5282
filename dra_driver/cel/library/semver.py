"""Semantic versions: semver("1.2.3"), semver("v1.2", true), compareTo() and their parts.

Versions are compared by semver.org 2.0.0 precedence; build metadata never counts, not even for equality.
"""

import re
from functools import total_ordering

from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.types import BOOL, INT, STRING, opaque
from dra_driver.cel.values import INT_MAX, Opaque

SEMVER = opaque("kubernetes.Semver")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_PRICE = 30  # of reading one
_NUMBER = re.compile(r"[0-9]+")


@total_ordering
class Semver(Opaque):
    """A version without its build metadata, which nothing looks at."""

    __slots__ = ("core", "key")
    type_name = SEMVER.name
    hashable = False

    def __init__(self, core: tuple[int, int, int], pre: tuple[str, ...]) -> None:
        self.core = core
        # A version without a pre-release comes after those with one; numbers come before words.
        identifiers = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre)
        self.key = (core, not pre, identifiers)

    @classmethod
    def parse(cls, text: str, normalize: bool = False) -> "Semver":
        """EvaluationError where `text` is no version; `normalize` forgives "v", missing parts and zeros."""
        core, _, build = (_normalized(text) if normalize else text).partition("+")
        if "+" in text and not all(map(_IDENTIFIER.fullmatch, build.split("."))):
            raise EvaluationError(f"Invalid character(s) found in build meta data {build!r}")
        numbers = core.split(".", 2)
        if len(numbers) != 3:
            raise EvaluationError("No Major.Minor.Patch elements found")
        patch, dash, rest = numbers[2].partition("-")
        pre = tuple(rest.split(".")) if dash else ()
        for part in pre:
            if not _IDENTIFIER.fullmatch(part):
                raise EvaluationError(f"Invalid character(s) found in prerelease {part!r}")
            if part.isdigit() and len(part) > 1 and part[0] == "0":
                raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {part!r}")
            if part.isdigit() and not _fits(part):
                raise EvaluationError(f"PreRelease number {part} is out of range")
        return cls((_number("Major", numbers[0]), _number("Minor", numbers[1]), _number("Patch", patch)), pre)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __lt__(self, other: "Semver") -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {name.lower()} number {text!r}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name} number must not contain leading zeroes {text!r}")
    if not _fits(text):
        raise EvaluationError(f"{name} number {text} is out of range")
    return int(text)


def _fits(digits: str) -> bool:
    return len(digits) <= 20 and int(digits) < 2**64


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in set("0123456789") else f"0{stripped}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _int64(number: int) -> int:
    """As Go's conversion of an unsigned number: what does not fit wraps around."""
    return number - 2**64 if number > INT_MAX else number


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        Semver.parse(text, normalize)
    except EvaluationError:
        return False
    return True


LIBRARY = Library(
    (
        function("semver", (STRING,), SEMVER, Semver.parse, price=_PRICE),
        function("semver", (STRING, BOOL), SEMVER, Semver.parse, price=_PRICE),
        function("isSemver", (STRING,), BOOL, _is_semver, price=_PRICE),
        function("isSemver", (STRING, BOOL), BOOL, _is_semver, price=_PRICE),
        method("major", (SEMVER,), INT, lambda value: _int64(value.core[0])),
        method("minor", (SEMVER,), INT, lambda value: _int64(value.core[1])),
        method("patch", (SEMVER,), INT, lambda value: _int64(value.core[2])),
        method("isGreaterThan", (SEMVER, SEMVER), BOOL, lambda one, other: one > other),
        method("isLessThan", (SEMVER, SEMVER), BOOL, lambda one, other: one < other),
        method("compareTo", (SEMVER, SEMVER), INT, lambda one, other: (one > other) - (one < other)),
    )
)
