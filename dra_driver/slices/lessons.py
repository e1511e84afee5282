"""What the API server's answers have taught about our slices, so that no write is repeated in vain.

* Fields it did not keep, since a feature gate is off: what it made of a content is as good as that content.
* Devices that a refusal names (422): withheld until they change. The rest is published.
* A content that it refused otherwise: not sent again unchanged, whatever happens to the slices.
* That it keeps no counters, or none in a slice of their own (Kubernetes 1.34): then what would share a GPU is
  not published, and whole GPUs are, without counters.

All of it is forgotten when the process ends: after an upgrade of the API server, a restart asks again.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import structlog

from dra_driver.devices.model import Device, DeviceSet
from dra_driver.errors import DriverError
from dra_driver.kube.errors import ResponseError
from dra_driver.slices.compare import DroppedField, dropped_fields, fingerprint
from dra_driver.slices.pack import Content

log = structlog.get_logger(__name__)

_DEVICE = re.compile(r"\bspec\.devices\[(\d+)\]")
_POLICY = "ValidatingAdmissionPolicy"  # denies with 422 too, but may change its mind about the same slice


class RefusedError(DriverError):
    """The API server refuses a slice as it is: nothing to try again until the devices change."""


class Lessons:
    """The memory of one publisher; used by one thread."""

    def __init__(self) -> None:
        self.counters = True  # whether the server is believed to keep them
        self.kept: dict[str, str] = {}  # fingerprints: of a content, of what the server made of it
        self._dropped: dict[str, tuple[DroppedField, ...]] = {}  # by fingerprint of the content
        self._devices: dict[str, tuple[str, str]] = {}  # name: the device as it was refused, and why
        self._content: tuple[str, str] | None = None  # fingerprint, and why

    def refused_devices(self, devices: DeviceSet) -> dict[str, str]:
        """Those of `devices` that are as they were when the server refused them, and why it did."""
        self._devices = {
            name: (text, reason)
            for name, (text, reason) in self._devices.items()
            if (device := devices.get(name)) is not None and _text(device) == text
        }
        return {name: reason for name, (_, reason) in self._devices.items()}

    def dropped(self, contents: tuple[Content, ...]) -> tuple[DroppedField, ...]:
        """What the server does not keep of `contents`, over all slices."""
        found: dict[str, list[str]] = {}
        for mark in ("", *(fingerprint(content.as_spec()) for content in contents)):
            for field in self._dropped.get(mark, ()):
                found.setdefault(field.field, []).extend(field.devices)
        return tuple(DroppedField(name, tuple(devices)) for name, devices in sorted(found.items()))

    def check(self, mark: str) -> None:
        """RefusedError where the content of this fingerprint was refused before."""
        if self._content is not None and self._content[0] == mark:
            raise RefusedError(self._content[1])

    def refused(self, error: ResponseError, content: Content, devices: DeviceSet) -> None:
        """Learn from a 422 or 400. Returns where packing again will help, else raises what the pass ends with."""
        if _POLICY in str(error):
            raise error
        causes = _causes(error)
        named = {
            content.devices[int(position)]["name"]: reason
            for reason in causes
            for position in _DEVICE.findall(reason)
            if int(position) < len(content.devices)
        }
        for name, reason in named.items():
            device = devices.get(name)
            assert device is not None
            self._devices[name] = _text(device), f"the API server refuses it: {reason}"
        if named:
            return
        if content.counter_sets and self.counters:
            log.warning("counters refused", err=causes[0])
            self.counters = False
            return
        reason = (
            f"the API server refuses a slice, which is not sent again until the devices change: {causes[0]}"
        )
        self._content = fingerprint(content.as_spec()), reason
        raise RefusedError(reason) from error

    def stored(self, content: Content, spec: Mapping[str, Any]) -> bool:
        """Learn from what the server stored of `content`; True where packing again is called for."""
        wanted, found = fingerprint(content.as_spec()), fingerprint(spec)
        if wanted == found:
            self.kept.pop(wanted, None)
            self._dropped.pop(wanted, None)
            return False
        dropped = dropped_fields(content.as_spec(), spec)
        # A gate that was switched off since keeps counter sets where they are, and drops what new devices take of them.
        lost_counters = content.counter_sets or any(field.field == "consumesCounters" for field in dropped)
        mark = "" if lost_counters else wanted  # the slice is given up, the lesson stays
        if self._dropped.get(mark) != dropped:
            for field in dropped:
                log.warning("field dropped", field=field.field, gate=field.gate, err=str(field))
        self._dropped[mark] = dropped
        if lost_counters:
            self.counters = False
            return True
        self.kept[wanted] = found
        return False

    def forget_all_but(self, contents: tuple[Content, ...]) -> None:
        """Drop what was learnt about contents that are no longer wanted."""
        marks = {fingerprint(content.as_spec()) for content in contents}
        self.kept = {mark: found for mark, found in self.kept.items() if mark in marks}
        self._dropped = {mark: found for mark, found in self._dropped.items() if mark in marks or not mark}


def _causes(error: ResponseError) -> list[str]:
    """What is wrong, in the server's words, without the slice's generated name; never empty."""
    causes = (error.details or {}).get("causes") or []
    texts = [f"{cause['field']}: {cause.get('message', '')}" for cause in causes if cause.get("field")]
    return texts or [str(error)]


def _text(device: Device) -> str:
    return json.dumps(device.as_dict(), sort_keys=True)
