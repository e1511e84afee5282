"""Taints of devices and the tolerations of requests."""

from collections.abc import Iterable, Mapping
from typing import Any

_EFFECTIVE = {"NoSchedule", "NoExecute"}


def tolerated(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no taint keeps the device from being allocated; effects that are not known keep nothing."""
    return all(
        taint.get("effect") not in _EFFECTIVE or any(tolerates(one, taint) for one in tolerations)
        for taint in taints
    )


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case _:
            return False
