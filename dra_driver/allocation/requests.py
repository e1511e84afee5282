"""Claims' requests in one shape, whether `exactly` or one of `firstAvailable`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dra_driver.allocation.constraints import Constraint, make
from dra_driver.allocation.errors import AllocationError

MAX_RESULTS = 32  # devices of one claim


@dataclass(frozen=True)
class Request:
    """A request or subrequest; `raw` is the API's ExactDeviceRequest or DeviceSubRequest."""

    name: str
    subrequest: str | None
    raw: Mapping[str, Any]

    @property
    def full_name(self) -> str:
        """As results name it: `req` or `req/sub`."""
        return self.name if self.subrequest is None else f"{self.name}/{self.subrequest}"

    @property
    def short_name(self) -> str:
        """As errors of the allocator name it: `req` or `sub`."""
        return self.subrequest or self.name

    @cached_property
    def class_name(self) -> str:
        return str(self.raw.get("deviceClassName") or "")

    @cached_property
    def wants_all(self) -> bool:
        return bool(self.raw.get("allocationMode") == "All")

    @cached_property
    def count(self) -> int:
        return int(self.raw.get("count") or 1)

    @cached_property
    def admin_access(self) -> bool:
        return bool(self.raw.get("adminAccess"))

    @cached_property
    def tolerations(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.raw.get("tolerations") or ())

    @cached_property
    def selectors(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.raw.get("selectors") or ())

    @cached_property
    def capacity(self) -> Mapping[str, Any]:
        return (self.raw.get("capacity") or {}).get("requests") or {}


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim that wants devices; `requests[i]` are the alternatives of its i-th request."""

    raw: Mapping[str, Any]

    @cached_property
    def name(self) -> str:
        """namespace/name, as texts have it."""
        meta = self.raw["metadata"]
        return f"{meta.get('namespace', 'default')}/{meta['name']}"

    @cached_property
    def devices(self) -> Mapping[str, Any]:
        return self.raw["spec"].get("devices") or {}

    @cached_property
    def requests(self) -> tuple[tuple[Request, ...], ...]:
        return tuple(map(self._alternatives, self.devices.get("requests") or ()))

    def _alternatives(self, entry: Mapping[str, Any]) -> tuple[Request, ...]:
        name = entry["name"]
        if entry.get("exactly") is not None:
            found: tuple[Request, ...] = (Request(name, None, entry["exactly"]),)
        else:
            found = tuple(Request(name, sub["name"], sub) for sub in entry.get("firstAvailable") or ())
        if not found:
            raise AllocationError(f"claim {self.name}, request {name}: unknown request type")
        for request in found:
            mode = request.raw.get("allocationMode") or "ExactCount"
            if mode not in {"ExactCount", "All"}:
                raise AllocationError(
                    f"claim {self.name}, request {request.short_name}: unsupported allocation mode {mode}"
                )
        return found

    def constraints(self, *, lists: bool) -> tuple[Constraint, ...]:
        """Fresh state of the claim's constraints; `lists`: whether attributes may be lists of values."""
        entries = self.devices.get("constraints") or ()
        return tuple(make(entry, self.name, index, lists=lists) for index, entry in enumerate(entries))
