"""Named formats: format.dns1123Label().validate("x") gives optional.none() or the reasons why not."""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Library, function, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library.time import parse_timestamp
from dra_driver.cel.library.url import LIBRARY as URLS
from dra_driver.cel.types import STRING, list_of, opaque, optional_of
from dra_driver.cel.values import NONE, Opaque, Optional

FORMAT = opaque("kubernetes.NamedFormat")
_PRICE = 40  # of looking at a text
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


class Format(Opaque):
    __slots__ = ("name", "test")
    type_name = FORMAT.name

    def __init__(self, name: str, test: Callable[[str], str | None]) -> None:
        self.name = name
        self.test = test

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _pattern(pattern: str, limit: int, meaning: str, *, prefix: bool = False) -> Callable[[str], str | None]:
    expression = re.compile(pattern, re.ASCII)

    def test(text: str) -> str | None:
        if len(text) > limit:
            return f"must be no more than {limit} characters"
        if prefix and text.endswith("-"):
            text = text[:-1] + "a"  # what generateName appends makes it whole
        return None if expression.fullmatch(text) else meaning

    return test


def _qualified_name(text: str) -> str | None:
    domain, slash, name = text.rpartition("/")
    if slash and not re.fullmatch(rf"{_LABEL}(?:\.{_LABEL})*", domain):
        return "prefix part must be a DNS subdomain"
    return None if len(name) <= 63 and re.fullmatch(_NAME, name) else "name part must be a qualified name"


def _uri(text: str) -> str | None:
    is_url = next(overload for overload in URLS.overloads if overload.function == "isURL").implementation
    return None if is_url(text) else "must be a URI"


def _byte(text: str) -> str | None:
    try:
        if not text:
            return "must be base64"
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "must be base64"
    return None


def _date(text: str) -> str | None:
    try:
        return None if len(text) == 10 and date.fromisoformat(text) else "must be a date"
    except ValueError:
        return "must be a date"


def _datetime(text: str) -> str | None:
    try:
        parse_timestamp(text)
    except EvaluationError:
        return "must be an RFC 3339 time"
    return None


_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_RFC1035 = r"[a-z](?:[-a-z0-9]*[a-z0-9])?"
_FORMATS = {
    name: Format(name, test)
    for name, test in {
        "dns1123Label": _pattern(_LABEL, 63, "must be a DNS-1123 label"),
        "dns1123Subdomain": _pattern(_SUBDOMAIN, 253, "must be a DNS-1123 subdomain"),
        "dns1035Label": _pattern(_RFC1035, 63, "must be a DNS-1035 label"),
        "qualifiedName": _qualified_name,
        "dns1123LabelPrefix": _pattern(_LABEL, 63, "must be the start of a DNS-1123 label", prefix=True),
        "dns1123SubdomainPrefix": _pattern(
            _SUBDOMAIN, 253, "must be the start of a DNS-1123 subdomain", prefix=True
        ),
        "dns1035LabelPrefix": _pattern(_RFC1035, 63, "must be the start of a DNS-1035 label", prefix=True),
        "labelValue": _pattern(rf"(?:{_NAME})?", 63, "must be a label value"),
        "uri": _uri,
        "uuid": lambda text: None if _UUID.fullmatch(text) else "must be a UUID",
        "byte": _byte,
        "date": _date,
        "datetime": _datetime,
    }.items()
}


def _named(name: str) -> Optional:
    known = _FORMATS.get(name)
    return NONE if known is None else Optional(present=True, value=known)


def _validate(frame: Frame, known: Format, text: str) -> Optional:
    charge(frame, _PRICE + len(text))
    reason = known.test(text)
    return NONE if reason is None else Optional(present=True, value=[reason])


def _constant(known: Format) -> Callable[[], Format]:
    return lambda: known


LIBRARY = Library(
    (
        *(function(f"format.{name}", (), FORMAT, _constant(known)) for name, known in _FORMATS.items()),
        function("format.named", (STRING,), optional_of(FORMAT), _named),
        method("validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate, metered=True),
    )
)
