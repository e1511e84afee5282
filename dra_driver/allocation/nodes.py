"""Which nodes a slice, a device or an allocation is for.

The API server accepts a Gt or Lt with what is no integer. Of a Pod or an allocation such a term matches no node; of a
slice or device it aborts every attempt of every claim, as in the scheduler.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dra_driver.allocation.errors import AllocationError

_OPERATORS = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
_INTEGER = re.compile(r"[+-]?[0-9]+")


def node_name(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["name"])


def selects(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether a slice's or device's nodeName, allNodes or nodeSelector takes in the node.

    AllocationError where a requirement of the nodeSelector makes no sense, whether it comes to it or not.
    """
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node_name(node))
    if spec.get("allNodes"):
        return True
    selector = spec.get("nodeSelector")
    if selector is None:
        return False
    for term in selector.get("nodeSelectorTerms") or ():
        for requirement in term.get("matchExpressions") or ():
            _require_sense(requirement)
    return matches(selector, node)


def _require_sense(requirement: Mapping[str, Any]) -> None:
    operator, values = requirement["operator"], requirement.get("values") or []
    if operator not in _OPERATORS:
        raise AllocationError(f"{operator!r} is not a valid node selector operator")
    if operator in {"Gt", "Lt"} and (len(values) != 1 or _integer(values[0]) is None):
        raise AllocationError(
            f"node selector: {operator} on label {requirement['key']!r} needs one integer, not {values}"
        )


def matches(selector: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether a core/v1 NodeSelector matches: one of its terms, each wholly."""
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term matches nothing
    labels = node["metadata"].get("labels") or {}
    return all(_requirement(one, labels) for one in expressions) and all(
        _requirement(one, {"metadata.name": node_name(node)}) for one in fields
    )


def _requirement(requirement: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    wanted: list[str] = requirement.get("values") or []
    value = values.get(key)
    match operator:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(wanted) == 1:
            number, bound = _integer(value), _integer(wanted[0])
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return False


def _integer(text: str) -> int | None:
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def selector_for(
    choices: Iterable[tuple[Mapping[str, Any], bool]], node: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The node selector of an allocation; None means every node.

    Of each device: the nodeName, allNodes or nodeSelector that it comes with, and whether it binds to the node. One
    that is local to the node ties the allocation to it. Otherwise all selectors must hold, so their requirements go
    into one term.
    """
    expressions: list[dict[str, Any]] = []
    fields: list[dict[str, Any]] = []
    for selection, binds in choices:
        if selection.get("nodeName") or binds:
            only = {"key": "metadata.name", "operator": "In", "values": [node_name(node)]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = (selection.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:  # alternatives of several devices cannot be merged into one term
            raise AllocationError(
                f"unsupported number of node selector terms in a device or slice: {len(terms)}"
            )
        for term in terms:
            _add_new(expressions, term.get("matchExpressions") or ())
            _add_new(fields, term.get("matchFields") or ())
    merged = {"matchExpressions": expressions, "matchFields": fields}
    term = {name: requirements for name, requirements in merged.items() if requirements}
    return {"nodeSelectorTerms": [term]} if term else None


def _add_new(requirements: list[dict[str, Any]], more: Iterable[dict[str, Any]]) -> None:
    """Those that are not there yet; the order of values makes no difference."""
    known = {_meaning(one) for one in requirements}
    for requirement in more:
        if _meaning(requirement) not in known:
            known.add(_meaning(requirement))
            requirements.append(requirement)


def _meaning(requirement: Mapping[str, Any]) -> tuple[str, str, frozenset[str]]:
    return requirement["key"], requirement["operator"], frozenset(requirement.get("values") or ())
