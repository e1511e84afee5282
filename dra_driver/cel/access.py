"""Fields, keys and indices: how `a.b`, `a["b"]`, `a[0]`, their optional forms and has() find what they name.

A map with a default answers every key when asked for it, by any of these, while `in` and size() still see only
what it holds: that is how Kubernetes treats unknown domains.
"""

from collections.abc import Callable
from typing import Any

from dra_driver.cel.budget import Frame
from dra_driver.cel.errors import EvaluationError, no_such_key
from dra_driver.cel.relations import find
from dra_driver.cel.values import NONE, DefaultMap, Optional, UInt, type_name

Step = Callable[[Frame], Any]


def select(operand: Step, field: str) -> Step:
    """operand.field"""

    def selected(frame: Frame) -> Any:
        value = operand(frame)
        try:
            return value[field]
        except KeyError:
            raise no_such_key(field) from None
        except TypeError:
            pass
        if type(value) is Optional:
            return _lookup_optional(value, field)
        return lookup(value, field)

    return selected


def select_optional(operand: Step, field: str) -> Step:
    """operand.?field"""
    return lambda frame: _lookup_optional(operand(frame), field)


def select_present(operand: Step, field: str) -> Step:
    """has(operand.field)"""

    def present(frame: Frame) -> bool:
        value = operand(frame)
        if type(value) is Optional:
            return value.present and _find(value.value, field)[0]
        return _find(value, field)[0]

    return present


def index(operand: Step, key: Step) -> Step:
    """operand[key]"""

    def indexed(frame: Frame) -> Any:
        value, name = operand(frame), key(frame)
        if type(name) is str and isinstance(value, dict):
            try:
                return value[name]
            except KeyError:
                raise no_such_key(name) from None
        if type(value) is Optional:
            return _lookup_optional(value, name)
        return lookup(value, name)

    return indexed


def index_optional(operand: Step, key: Step) -> Step:
    """operand[?key]"""

    def indexed(frame: Frame) -> Any:
        value = operand(frame)
        return _lookup_optional(value, key(frame))

    return indexed


def lookup(value: Any, key: Any) -> Any:
    """What `value` has under `key`; an error where it has nothing."""
    found, there = _find(value, key)
    if found:
        return there
    if type(value) is list:
        raise EvaluationError(f"index out of bounds: {key}")
    raise no_such_key(key)


def _lookup_optional(value: Any, key: Any) -> Optional:
    if type(value) is Optional:
        if not value.present:
            return NONE
        value = value.value
    found, there = _find(value, key)
    if not found:
        return NONE
    return there if type(there) is Optional else Optional(present=True, value=there)


def _find(value: Any, key: Any) -> tuple[bool, Any]:
    if isinstance(value, dict):
        found = find(value, key)
        if found[0] or type(value) is not DefaultMap:
            return found
        if type(key) not in {int, UInt, bool, float}:  # a str was found
            raise EvaluationError(f"invalid qualifier type: {type_name(key)}")
        return True, {}
    if type(value) is list:
        position = _position(key)
        return (True, value[position]) if 0 <= position < len(value) else (False, None)
    return False, None


def _position(key: Any) -> int:
    if type(key) is int or type(key) is UInt:
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def map_key(key: Any) -> Any:
    """The key as a map may have it; what is no scalar is refused."""
    if type(key) in {str, int, UInt, bool, float, bytes, type(None)}:
        return key
    raise EvaluationError(f"unsupported key type: {type_name(key)}")
