"""Which nodes can reach a device: node names and node selectors."""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_driver.resource.names import check, label_key, label_value, subdomain
from dra_driver.resource.problems import Problem, child, forbidden, index, invalid, required


def node_selector(selector: Mapping[str, Any], path: str) -> Iterator[Problem]:
    where = child(path, "nodeSelectorTerms")
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield required(where, "must have at least one node selector term")
    for position, term in enumerate(term or {} for term in terms):
        at = index(where, position)
        for number, entry in enumerate(term.get("matchExpressions") or []):
            yield from _label_requirement(entry or {}, index(child(at, "matchExpressions"), number))
        for number, entry in enumerate(term.get("matchFields") or []):
            yield from _field_requirement(entry or {}, index(child(at, "matchFields"), number))


def _label_requirement(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    values = entry.get("values") or []
    where = child(path, "values")
    match entry.get("operator") or "":
        case "In" | "NotIn":
            if not values:
                yield required(where, "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(where, rule)
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(where, "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case operator:
            yield invalid(child(path, "operator"), operator, "not a valid selector operator")
    yield from check(child(path, "key"), entry.get("key") or "", label_key)
    for position, value in enumerate(values):
        yield from check(index(where, position), value or "", label_value)


def _field_requirement(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    values = entry.get("values") or []
    where = child(path, "values")
    if (operator := entry.get("operator") or "") not in {"In", "NotIn"}:
        yield invalid(child(path, "operator"), operator, "not a valid selector operator")
    elif len(values) != 1:
        rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(where, rule)
    if (name := entry.get("key") or "") != "metadata.name":
        yield invalid(child(path, "key"), name, "not a valid field selector key")
        return
    for position, value in enumerate(values):
        yield from check(index(where, position), value or "", subdomain)
