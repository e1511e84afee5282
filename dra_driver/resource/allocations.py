"""The status of a ResourceClaim: what was allocated, for whom, and how the devices do."""

from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_interface
from typing import Any

from dra_driver.resource.configuration import configuration, raw_object
from dra_driver.resource.devices import binding_conditions
from dra_driver.resource.limits import (
    MAX_ALLOCATION_CONFIGS,
    MAX_CONDITIONS,
    MAX_HARDWARE_ADDRESS,
    MAX_INTERFACE_NAME,
    MAX_IPS,
    MAX_RESERVED_FOR,
    MAX_RESULTS,
)
from dra_driver.resource.metadata import conditions
from dra_driver.resource.names import check, driver_name, label, pool_name, size, uid
from dra_driver.resource.nodes import node_selector
from dra_driver.resource.problems import (
    Problem,
    child,
    duplicates,
    each,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from dra_driver.resource.requests import RequestNames, reference, references
from dra_driver.resource.taints import tolerations

_SOURCES = ("FromClaim", "FromClass")
DeviceKey = tuple[str, str, str, str]  # driver, pool, device, share id


def claim_status(status: Mapping[str, Any], path: str, names: RequestNames) -> Iterator[Problem]:
    """The whole status, as if it were new; `names` are the requests of the claim's spec."""
    allocation = status.get("allocation")
    yield from _reserved_for(
        status.get("reservedFor") or [], child(path, "reservedFor"), allocated=allocation is not None
    )
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    allocated = {_device_key(result or {}) for result in results}
    entries, where = [entry or {} for entry in status.get("devices") or []], child(path, "devices")
    for position, entry in enumerate(entries):
        yield from _device_status(entry, index(where, position), allocated)
    yield from duplicates(where, [_shown(_device_key(entry)) for entry in entries])
    if allocation is not None:
        yield from _allocation(allocation, child(path, "allocation"), names)


def _device_key(entry: Mapping[str, Any]) -> DeviceKey:
    driver, pool, device, share = (entry.get(name) or "" for name in ("driver", "pool", "device", "shareID"))
    return driver, pool, device, share


def _shown(device: DeviceKey) -> str:
    return "/".join(part for part in device if part)


def _reserved_for(entries: list[Any], path: str, *, allocated: bool) -> Iterator[Problem]:
    yield from each(entries, path, MAX_RESERVED_FOR, _consumer, unique="uid")
    if entries and not allocated:
        yield forbidden(path, "may not be specified when `allocated` is not set")


def _consumer(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    return (required(child(path, name)) for name in ("resource", "name", "uid") if not entry.get(name))


def _allocation(allocation: Mapping[str, Any], path: str, names: RequestNames) -> Iterator[Problem]:
    devices, where = allocation.get("devices") or {}, child(path, "devices")
    results, configs = devices.get("results") or [], devices.get("config") or []
    yield from each(results, child(where, "results"), MAX_RESULTS, partial(_result, names))
    yield from each(configs, child(where, "config"), MAX_ALLOCATION_CONFIGS, partial(_config, names))
    if allocation.get("nodeSelector") is not None:
        yield from node_selector(allocation["nodeSelector"], child(path, "nodeSelector"))


def _result(names: RequestNames, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from reference(entry.get("request") or "", child(path, "request"), names)
    yield from _identity(entry, path)
    yield from binding_conditions(entry, path)
    yield from tolerations(entry.get("tolerations") or [], child(path, "tolerations"))


def _identity(entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from driver_name(child(path, "driver"), entry.get("driver") or "")
    yield from pool_name(child(path, "pool"), entry.get("pool") or "")
    yield from check(child(path, "device"), entry.get("device") or "", label)
    if (share := entry.get("shareID")) is not None:
        yield from uid(child(path, "shareID"), share)


def _config(names: RequestNames, entry: Mapping[str, Any], path: str) -> Iterator[Problem]:
    where = child(path, "source")
    if not (source := entry.get("source") or ""):
        yield required(where)
    elif source not in _SOURCES:
        yield not_supported(where, source, _SOURCES)
    yield from references(entry.get("requests") or [], child(path, "requests"), names)
    yield from configuration(entry, path)


def _device_status(entry: Mapping[str, Any], path: str, allocated: set[DeviceKey]) -> Iterator[Problem]:
    yield from _identity(entry, path)
    if _device_key(entry) not in allocated:
        yield invalid(path, _shown(_device_key(entry)), "must be an allocated device in the claim")
    found, where = entry.get("conditions") or [], child(path, "conditions")
    if len(found) > MAX_CONDITIONS:
        yield too_many(where, len(found), MAX_CONDITIONS)
    yield from conditions(found, where)
    if entry.get("data") is not None:
        yield from raw_object(entry["data"], child(path, "data"))
    network, where = entry.get("networkData") or {}, child(path, "networkData")
    for name, limit in (("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)):
        if size(network.get(name) or "") > limit:
            yield too_long(child(where, name), limit)
    yield from _ips(network.get("ips") or [], child(where, "ips"))


def _ips(entries: list[Any], path: str) -> Iterator[Problem]:
    if len(entries) > MAX_IPS:
        yield too_many(path, len(entries), MAX_IPS)
        return
    for position, text in enumerate(entry or "" for entry in entries):
        where = index(path, position)
        try:
            canonical = ip_interface(text).with_prefixlen if "/" in text else None
        except ValueError:
            canonical = None
        if canonical is None:
            rule = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
            yield invalid(where, text, rule)
        elif canonical != text:
            yield invalid(where, text, f'must be in canonical form ("{canonical}")')
    yield from duplicates(path, entries)
