"""DeviceClass and DeviceTaintRule: what admins define."""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_driver.resource.configuration import configuration
from dra_driver.resource.expressions import CompileSelector, selectors
from dra_driver.resource.limits import MAX_CONDITIONS, MAX_CONFIGS
from dra_driver.resource.metadata import conditions
from dra_driver.resource.names import check, driver_name, extended_resource, label, pool_name
from dra_driver.resource.problems import Problem, child, index, too_many
from dra_driver.resource.taints import taint


def device_class(obj: Mapping[str, Any], compile_selector: CompileSelector) -> Iterator[Problem]:
    spec = obj.get("spec") or {}
    yield from selectors(spec.get("selectors") or [], "spec.selectors", compile_selector)
    configs = spec.get("config") or []
    if len(configs) > MAX_CONFIGS:
        yield too_many("spec.config", len(configs), MAX_CONFIGS)
    else:
        for position, entry in enumerate(configs):
            yield from configuration(entry or {}, index("spec.config", position))
    if (name := spec.get("extendedResourceName")) is not None:
        yield from check("spec.extendedResourceName", name, extended_resource)


def device_taint_rule(obj: Mapping[str, Any]) -> Iterator[Problem]:
    spec = obj.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    if (driver := selector.get("driver")) is not None:
        yield from driver_name(child(path, "driver"), driver)
    if (pool := selector.get("pool")) is not None:
        yield from pool_name(child(path, "pool"), pool)
    if (device := selector.get("device")) is not None:
        yield from check(child(path, "device"), device, label)
    yield from taint(spec.get("taint") or {}, "spec.taint")
    found = (obj.get("status") or {}).get("conditions") or []
    yield from conditions(found, "status.conditions")
    if len(found) > MAX_CONDITIONS:
        yield too_many("status.conditions", len(found), MAX_CONDITIONS)
