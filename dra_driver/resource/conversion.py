"""Objects of resource.k8s.io/v1beta1, v1beta2 and v1 turned into each other.

v1beta2 and v1 have the same shapes. v1beta1 differs in two places: a request has no `exactly`, its fields stand in the
request itself; and what a slice says of a device stands under `basic`. Nothing is lost either way. Pure, for tools that
read what people wrote long ago; the driver itself writes v1 only.

What has no place in the other version (a request with `exactly` that is called v1beta1, a misspelled field) stays where
it is: refusing it is validation's job, which names the field.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from dra_driver.resource.shapes import DEVICE_FIELDS, EXACT_REQUEST_FIELDS

Version = Literal["v1", "v1beta2", "v1beta1"]
VERSIONS: Final[tuple[Version, ...]] = get_args(Version)
_GROUP = "resource.k8s.io"
_KINDS = frozenset({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"})
Object = Mapping[str, Any]


def is_convertible(obj: Object) -> bool:
    """Whether an object is of a kind, and in a version, that `convert` knows."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return group == _GROUP and version in VERSIONS and obj.get("kind") in _KINDS


def convert(obj: Object, version: Version) -> dict[str, Any]:
    """The object in `version`; the given one is left as it is. ValueError where it is not convertible."""
    if not is_convertible(obj):
        raise ValueError(f"{obj.get('apiVersion')} {obj.get('kind')} is not known in several versions")
    converted = {**obj, "apiVersion": f"{_GROUP}/{version}"}
    was_flat, is_flat = str(obj["apiVersion"]).endswith("/v1beta1"), version == "v1beta1"
    if was_flat == is_flat:
        return converted
    match obj["kind"]:
        case "ResourceClaim":
            return _at(converted, ("spec",), _claim(flat=is_flat))
        case "ResourceClaimTemplate":
            return _at(converted, ("spec", "spec"), _claim(flat=is_flat))
        case "ResourceSlice":
            return _at(converted, ("spec", "devices"), _each(_flat_device if is_flat else _v1_device))
        case _:
            return converted


def _at(obj: Object, path: tuple[str, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy in which the value at `path` is changed, where there is one."""
    name, *rest = path
    if name not in obj:
        return dict(obj)
    inner = obj[name]
    if not rest:
        return {**obj, name: change(inner)}
    return {**obj, name: _at(inner, tuple(rest), change)} if isinstance(inner, dict) else dict(obj)


def _each(change: Callable[[Object], Object]) -> Callable[[Any], Any]:
    def changed(items: Any) -> Any:
        if not isinstance(items, list):
            return items
        return [change(item) if isinstance(item, dict) else item for item in items]

    return changed


def _claim(*, flat: bool) -> Callable[[Any], Any]:
    change = _each(_flat_request if flat else _v1_request)

    def changed(spec: Any) -> Any:
        return _at(spec, ("devices", "requests"), change) if isinstance(spec, dict) else spec

    return changed


def _v1_request(request: Object) -> Object:
    return _gathered(request, "exactly", EXACT_REQUEST_FIELDS)


def _flat_request(request: Object) -> Object:
    return _spread(request, "exactly", EXACT_REQUEST_FIELDS)


def _v1_device(device: Object) -> Object:
    return _spread(device, "basic", DEVICE_FIELDS)


def _flat_device(device: Object) -> Object:
    gathered = _gathered(device, "basic", DEVICE_FIELDS)
    return gathered if "basic" in gathered else {**gathered, "basic": {}}  # v1beta1 requires it, empty or not


def _gathered(obj: Object, under: str, fields: frozenset[str]) -> Object:
    """The fields moved under one name, which comes where the first of them was."""
    if under in obj or not fields.intersection(obj):
        return obj
    inner = {name: value for name, value in obj.items() if name in fields}
    moved: dict[str, Any] = {}
    for name, value in obj.items():
        if name in fields:
            moved.setdefault(under, inner)
        else:
            moved[name] = value
    return moved


def _spread(obj: Object, under: str, fields: frozenset[str]) -> Object:
    """The fields under one name moved up; all stay where they are if one of them has no place above."""
    inner = obj.get(under)
    if not isinstance(inner, dict) or not fields.issuperset(inner) or fields.intersection(obj):
        return obj
    spread: dict[str, Any] = {}
    for name, value in obj.items():
        spread.update(inner if name == under else {name: value})
    return spread
