"""How a device misses a condition, in words with the values that were seen."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dra_driver.allocation.explanation.model import Holder, Miss
from dra_driver.cel import EvaluationError
from dra_driver.cel.library.semver import Semver
from dra_driver.quantity import Format, Quantity
from dra_driver.selectors.comparisons import Comparison, Condition
from dra_driver.selectors.reads import Read, reads

_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SAID = {
    ">=": "is below",
    ">": "is not above",
    "<=": "is above",
    "<": "is not below",
    "contains": "does not contain",
    "startsWith": "does not start with",
    "endsWith": "does not end with",
    "matches": "does not match",
}


def miss(condition: Condition, driver: str, device: Mapping[str, Any]) -> Miss:
    """Why the condition is false for the device."""
    comparison = condition.comparison
    if comparison is None:
        return Miss(f"{condition.text} is false{_seen(condition.text, driver, device)}", condition.text, "")
    shown = comparison.read.shown(driver, device)
    if shown is None:
        return Miss(f"it has no {comparison.read.name}", condition.text, "")
    amount = _amount(comparison, shown)
    best = ("largest" if comparison.relation in {">", ">="} else "smallest") if comparison.ordered else ""
    if comparison.kind == "quantity":
        shown = in_unit_of(shown, str(comparison.wanted))
    return Miss(
        _sentence(comparison, shown, amount),
        condition.text,
        best if amount is not None else "",
        shown,
        amount,
    )


def _sentence(comparison: Comparison, shown: str, amount: Any) -> str:
    name, wanted = comparison.read.name, _quoted(comparison, comparison.wanted)
    value = _quoted(comparison, shown)
    match comparison.relation:
        case "==":
            return f"{name} is {value}, not {wanted}"
        case "!=":
            return f"{name} is {value}"
        case ">" | "<" if amount is not None and amount != _amount(comparison, str(comparison.wanted)):
            return f"{name} {value} is {'below' if comparison.relation == '>' else 'above'} {wanted}"
        case relation:
            return f"{name} {value} {_SAID.get(relation, relation)} {wanted}"


def _quoted(comparison: Comparison, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if comparison.kind == "plain" and isinstance(comparison.wanted, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _amount(comparison: Comparison, shown: str) -> Any:
    """What orders values of the comparison; None where they have no order."""
    try:
        match comparison.kind, comparison.wanted:
            case "quantity", _:
                return Quantity.parse(shown).nanos
            case "semver", _:
                return Semver.parse(shown).key
            case _, int() if not isinstance(comparison.wanted, bool):
                return int(shown)
            case _:
                return None
    except (ValueError, EvaluationError):
        return None


def in_unit_of(shown: str, wanted: str) -> str:
    """'81559Mi' beside '80Gi' -> '81559Mi (79.65Gi)', so that the two can be compared by eye."""
    unit = wanted[-2:]
    if unit not in _UNITS or shown.endswith(unit):
        return shown
    amount = Quantity.parse(shown).nanos / 10**9 / 1024 ** (_UNITS.index(unit) + 1)
    return f"{shown} ({amount:.2f}".rstrip("0").rstrip(".") + f"{unit})"


def _seen(expression: str, driver: str, device: Mapping[str, Any]) -> str:
    """' (with a = 1, b missing)': what the expression read."""
    found = [_value(read, driver, device) for read in sorted(reads(expression, lists=True) or ())]
    return f" (with {', '.join(found)})" if found else ""


def _value(read: Read, driver: str, device: Mapping[str, Any]) -> str:
    entry = read.find(driver, device)
    if entry is None:
        return f"{read.name} missing"
    shown = read.shown(driver, device)
    return f"{read.name} = {json.dumps(shown, ensure_ascii=False) if 'string' in entry else shown}"


def plain(value: Any) -> str:
    """An attribute's value as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(nanos: int, like: Quantity) -> str:
    """An amount in the notation of another."""
    return str(Quantity(nanos, Format.BINARY_SI if like.format is Format.BINARY_SI else Format.DECIMAL_SI))


def who(holders: Iterable[Holder]) -> str:
    """Claims that have a device, with their Pods."""
    named = [str(holder) for holder in holders]
    if not named:
        return "a claim that is not known"
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
