"""Label and field selectors, with the API server's syntax, meaning and refusals."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.kinds import EVENT, Kind

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<no>[^\s,!=()<>]+)"
    r"|(?P<key>[^\s,!=()<>]+)\s*(?:"
    r"(?P<set>\s(?:in|notin)\s*)\((?P<values>[^()]*)\)"
    r"|(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,!=()<>]*)"
    r")?)\s*(?:,|$)"
)


_NUMBER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or watch asks for; an object is passed through all its tests."""

    tests: tuple[Callable[[dict[str, Any]], bool], ...] = ()

    def matches(self, obj: dict[str, Any]) -> bool:
        return all(test(obj) for test in self.tests)


def parse(kind: Kind, labels: str | None, fields: str | None) -> Selector:
    """Both selectors of a request as one; 400 where one cannot be read or names a field it cannot select by."""
    return Selector((*_label_tests(labels or ""), *_field_tests(kind, fields or "")))


def _label_tests(text: str) -> list[Callable[[dict[str, Any]], bool]]:
    tests = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            word = text[position:].strip().split(",")[0].split()
            found = word[1] if len(word) > 1 else word[0] if word else ""
            raise status.bad_request(
                f"unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt"
            )
        tests.append(_label_test(match))
        position = match.end()
    return tests


def _label_test(match: re.Match[str]) -> Callable[[dict[str, Any]], bool]:
    def labels(obj: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = obj["metadata"].get("labels") or {}
        return found

    if match["absent"]:
        absent = match["no"]
        return lambda obj: absent not in labels(obj)
    key = match["key"]
    if match["set"]:
        values = {value.strip() for value in match["values"].split(",")}
        if match["set"].strip() == "in":
            return lambda obj: labels(obj).get(key) in values
        return lambda obj: labels(obj).get(key) not in values
    value = match["value"]
    if match["op"] in {"=", "=="}:
        return lambda obj: labels(obj).get(key) == value
    if match["op"] == "!=":
        return lambda obj: labels(obj).get(key) != value
    if match["op"] in {"<", ">"}:
        if not _NUMBER.fullmatch(value):
            raise status.bad_request(
                f"values: Invalid value: {value!r}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        sign = 1 if match["op"] == ">" else -1
        return lambda obj: _is_beyond(labels(obj).get(key), int(value), sign)
    return lambda obj: key in labels(obj)


def _is_beyond(found: str | None, limit: int, sign: int) -> bool:
    return bool(found and _NUMBER.fullmatch(found)) and sign * int(found or 0) > sign * limit


def _field_tests(kind: Kind, text: str) -> list[Callable[[dict[str, Any]], bool]]:
    tests = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", term)
        if match is None:
            raise status.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = match.groups()
        if path not in {"metadata.name", "metadata.namespace", *kind.selectable}:
            raise status.bad_request(f"field label not supported: {path}")
        tests.append(_field_test(kind, path, value, wanted=operator != "!="))
    return tests


def _field_test(kind: Kind, path: str, value: str, *, wanted: bool) -> Callable[[dict[str, Any]], bool]:
    return lambda obj: (field_value(kind, obj, path) == value) is wanted


def field_value(kind: Kind, obj: dict[str, Any], path: str) -> str:
    """The text that a field selector compares with; an unset field is the empty string."""
    if kind is EVENT and path == "source":
        path = "source.component"
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return "" if found is None else str(found)
