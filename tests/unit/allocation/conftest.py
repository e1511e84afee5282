"""Slices, classes and claims in one line each, and what an allocation gives in short."""

from collections.abc import Iterable
from typing import Any

import pytest

from dra_driver.allocation import Snapshot
from dra_driver.allocation.explanation import Explanation, Scene, explain

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"


class World:
    """Objects that a test puts together, and the allocator asked about them."""

    def __init__(self) -> None:
        self.slices: list[Object] = []
        self.allocated: list[Object] = []
        self.classes: list[Object] = [{"metadata": {"name": "any"}, "spec": {}}]
        self.lists = False

    @staticmethod
    def device(name: str, **fields: Any) -> Object:
        """A device; attributes are given as name=value or name=[1, 2], everything else by its API name."""
        known = {"capacity", "consumesCounters", "taints", "allowMultipleAllocations", "nodeName", "allNodes"}
        known |= {"nodeSelector", "bindsToNode", "bindingConditions"}
        kinds: dict[type, str] = {bool: "bool", int: "int", str: "string", list: "ints"}
        attributes = {key: {kinds[type(value)]: value} for key, value in fields.items() if key not in known}
        rest = {key: value for key, value in fields.items() if key in known}
        if "capacity" in rest:
            rest["capacity"] = {
                key: value if isinstance(value, dict) else {"value": value}
                for key, value in rest["capacity"].items()
            }
        return {"name": name, "attributes": attributes, **rest}

    def slice(self, *devices: Object, name: str = "", pool: Object | None = None, **spec: Any) -> None:
        where = (
            spec if {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & spec.keys() else {}
        )
        body = {
            "driver": DRIVER,
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1, **(pool or {})},
            **({} if where else {"nodeName": "n1"}),
            **({"devices": list(devices)} if devices else {}),
            **spec,
        }
        self.slices.append({"metadata": {"name": name or f"slice-{len(self.slices)}"}, "spec": body})

    def device_class(self, name: str, *expressions: str, config: Iterable[Object] = ()) -> None:
        spec: Object = {"selectors": [{"cel": {"expression": one}} for one in expressions]}
        if config:
            spec["config"] = list(config)
        self.classes.append({"metadata": {"name": name}, "spec": spec})

    @staticmethod
    def request(name: str = "r", *expressions: str, **exactly: Any) -> Object:
        return {"name": name, "exactly": _request(expressions, exactly)}

    @staticmethod
    def first_available(name: str, **alternatives: Object) -> Object:
        return {
            "name": name,
            "firstAvailable": [{"name": sub, **_request((), one)} for sub, one in alternatives.items()],
        }

    @staticmethod
    def claim(*requests: Object, name: str = "c", **devices: Any) -> Object:
        metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
        return {"metadata": metadata, "spec": {"devices": {"requests": list(requests), **devices}}}

    def take(self, device: str, pool: str = "pool", **result: Any) -> None:
        """Let a claim of earlier have the device."""
        results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": device, **result}]
        claim = self.claim(name=f"old-{len(self.allocated)}")
        self.allocated.append({**claim, "status": {"allocation": {"devices": {"results": results}}}})

    def allocate(self, *claims: Object, node: str = "n1", labels: dict[str, str] | None = None) -> Any:
        snapshot = Snapshot(self.slices, self.classes, self.allocated, lists=self.lists)
        return snapshot.allocate(claims, node={"metadata": {"name": node, "labels": labels or {}}})

    def explain(self, *claims: Object, nodes: Iterable[str] = ("n1",)) -> Explanation:
        scene = Scene.of(self.slices, self.classes, self.allocated, lists=self.lists)
        return explain(scene, claims, [{"metadata": {"name": name}} for name in nodes])

    def reasons(self, *claims: Object, node: str = "n1") -> dict[str, list[str]]:
        """What keeps each device of the node from the first request, in words."""
        (report,) = self.explain(*claims, nodes=(node,)).nodes
        devices = report.requests[0].devices
        return {one.device.device: [blocker.text for blocker in one.blockers] for one in devices}

    def devices(self, *claims: Object, node: str = "n1", **labels: str) -> list[str] | None:
        """The names of all devices allocated, in order; None where the claims do not fit."""
        results = self.allocate(*claims, node=node, labels=labels)
        if results is None:
            return None
        return [device["device"] for result in results for device in result["devices"]["results"]]


def _request(expressions: Iterable[str], fields: Object) -> Object:
    selectors = {"selectors": [{"cel": {"expression": one}} for one in expressions]} if expressions else {}
    return {"deviceClassName": "any", **selectors, **fields}


@pytest.fixture
def world() -> World:
    return World()
