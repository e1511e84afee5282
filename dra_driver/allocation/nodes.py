"""Which nodes a slice, a device or an allocation is for."""

from collections.abc import Iterable, Mapping
from typing import Any

from dra_driver.allocation.errors import AllocationError


def node_name(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["name"])


def selects(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether a slice's or device's nodeName, allNodes or nodeSelector takes in the node."""
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node_name(node))
    if spec.get("allNodes"):
        return True
    selector = spec.get("nodeSelector")
    return selector is not None and matches(selector, node)


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
        case "Gt" | "Lt":
            return value is not None and _compares(operator, value, wanted)
        case _:
            raise AllocationError(f"{operator!r} is not a valid node selector operator")


def _compares(operator: str, value: str, wanted: list[str]) -> bool:
    try:
        number, bound = int(value), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def selector_for(
    selections: Iterable[Mapping[str, Any]], node: Mapping[str, Any], *, binds: bool
) -> dict[str, Any] | None:
    """The node selector of an allocation, from what its devices' slices say; None means every node.

    One device that is local to the node ties the allocation to it. Otherwise all selectors must hold, so their
    requirements go into one term.
    """
    expressions: list[dict[str, Any]] = []
    fields: list[dict[str, Any]] = []
    for selection in selections:
        if selection.get("nodeName") or binds:
            only = {"key": "metadata.name", "operator": "In", "values": [node_name(node)]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = (selection.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:  # alternatives of several devices cannot be merged into one term
            raise AllocationError(
                f"unsupported number of node selector terms in a device or slice: {len(terms)}"
            )
        for term in terms:
            expressions += (one for one in term.get("matchExpressions") or () if one not in expressions)
            fields += (one for one in term.get("matchFields") or () if one not in fields)
    merged = {"matchExpressions": expressions, "matchFields": fields}
    term = {name: requirements for name, requirements in merged.items() if requirements}
    return {"nodeSelectorTerms": [term]} if term else None
