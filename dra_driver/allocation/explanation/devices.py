"""What keeps one device from one request, by itself: selectors, taints, who holds it, what is left of it.

All blockers are found, not just the first as in the allocator: freeing a device that no selector takes helps nobody.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_driver.allocation import capacity, taints
from dra_driver.allocation.explanation.answers import Answer
from dra_driver.allocation.explanation.counters import short_counters
from dra_driver.allocation.explanation.model import Blocker, DeviceReport, Kind, SelectorCount
from dra_driver.allocation.explanation.scene import Scene
from dra_driver.allocation.explanation.wording import shown, who
from dra_driver.allocation.model import Device
from dra_driver.allocation.needs import Candidate
from dra_driver.allocation.requests import Request
from dra_driver.allocation.state import CounterLedger
from dra_driver.quantity import Quantity

Object = Mapping[str, Any]


class Inspection:
    """One request over the devices of one node; counts what each selector kept."""

    def __init__(self, scene: Scene, request: Request, device_class: Object, ledger: CounterLedger) -> None:
        self._scene = scene
        self._request = request
        self._ledger = ledger
        self._classes = _Tally(f"class {request.class_name}", device_class.get("spec") or {}, Kind.CLASS)
        self._own = _Tally(f"request {request.full_name}", request.raw, Kind.SELECTOR)

    @property
    def counts(self) -> tuple[SelectorCount, ...]:
        return (*self._classes.counts(), *self._own.counts())

    def look_at(self, candidate: Candidate) -> DeviceReport:
        device, request = candidate.device, self._request
        held = not request.admin_access and device.id in self._scene.snapshot.allocated.devices
        # A device that is taken is passed over before its selectors are asked, unless all are wanted.
        asked = request.wants_all or not held
        found = self._classes.ask(self._scene, device, asked=asked)
        if not any(blocker.kind is Kind.CLASS for blocker in found):
            # Selectors of a claim are never asked about a device that is not of the class.
            found += self._own.ask(self._scene, device, asked=asked and not found)
            found += self._state(candidate, held=held)
        return DeviceReport(device.id, tuple(found))

    def _state(self, candidate: Candidate, *, held: bool) -> Iterator[Blocker]:
        device, request = candidate.device, self._request
        if device.shareable or request.capacity:
            yield from self._capacity(device)
        for taint in device.raw.get("taints") or ():
            if not taints.tolerated([taint], request.tolerations):
                yield _tainted(taint)
        if held:
            holders = self._scene.holders.get(device.id, ())
            yield Blocker(Kind.IN_USE, f"in use by {who(holders)}", holders=holders)
        elif device.consumes and not self._paid(device):
            yield from short_counters(self._scene, self._ledger.left(candidate.pool), candidate.pool, device)

    def _paid(self, device: Device) -> bool:
        """Whether an earlier share of the device took its counters already."""
        return device.shareable and device.id in self._scene.snapshot.allocated.shared

    def _capacity(self, device: Device) -> Iterator[Blocker]:
        for name in self._request.capacity:
            if name not in device.capacity:
                yield Blocker(Kind.CAPACITY, f"it has no capacity {name}")
                return
        taken = capacity.consumption(device, self._request.capacity)
        if taken is None:
            yield Blocker(
                Kind.CAPACITY, f"its request policy does not allow {_amounts(self._request.capacity)}"
            )
            return
        used = self._scene.snapshot.allocated.capacity.get(device.id) or {}
        for name, amount in taken.items():
            total = Quantity.parse(str(device.capacity[name]["value"]))
            left = total.nanos - used.get(name, 0)
            if amount.nanos > left:
                holders = self._scene.holders.get(device.id, ())
                text = (
                    f"capacity {name} is short by {shown(amount.nanos - left, total)}:"
                    f" needs {shown(amount.nanos, total)}, {shown(left, total)} of {total} is left"
                )
                yield Blocker(
                    Kind.CAPACITY,
                    text + (f"; shared with {who(holders)}" if holders else ""),
                    holders=holders,
                )


class _Tally:
    """The selectors of a class or of a request, asked in order, and what came of it."""

    def __init__(self, owner: str, spec: Object, kind: Kind) -> None:
        self._owner = owner
        self._kind = kind
        self._expressions = [
            str((one.get("cel") or {}).get("expression") or "") for one in spec.get("selectors") or ()
        ]
        self._kept = [0] * len(self._expressions)
        self._asked = [0] * len(self._expressions)
        self._failed = [0] * len(self._expressions)

    def counts(self) -> Iterator[SelectorCount]:
        for index, expression in enumerate(self._expressions):
            numbers = (self._kept[index], self._asked[index], self._failed[index])
            yield SelectorCount(self._owner, index, expression, *numbers)

    def ask(self, scene: Scene, device: Device, *, asked: bool) -> list[Blocker]:
        """What the selectors have against the device; `asked` tells whether the allocator comes to ask them.

        Those of a class filter one after the other; those of a request are each asked, so that one can see which
        of them is the one that matters. Where the allocator does not get to one that fails, it does no harm.
        """
        found: list[Blocker] = []
        for index, expression in enumerate(self._expressions):
            self._asked[index] += 1
            answer = scene.answers.of(expression, device)
            if answer.kept:
                self._kept[index] += 1
            elif answer.kept is None:
                if asked and not found:
                    self._failed[index] += 1
                    found.append(self._fails(index, answer))
            else:
                found.append(self._is_false(index, answer))
            if found and self._kind is Kind.CLASS:
                break
        return found

    def _fails(self, index: int, answer: Answer) -> Blocker:
        owner = f"{self._owner}, " if self._kind is Kind.CLASS else ""
        return Blocker(Kind.ERROR, f"{owner}selector {index} fails: {answer.text}", answer.fix)

    def _is_false(self, index: int, answer: Answer) -> Blocker:
        owner = f"not of {self._owner}: " if self._kind is Kind.CLASS else ""
        text = f"{owner}selector {index} is false: {answer.text}"
        return Blocker(self._kind, text, misses=answer.misses)


def _tainted(taint: Object) -> Blocker:
    key, value, effect = taint.get("key", ""), taint.get("value") or "", taint.get("effect")
    shown = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    return Blocker(
        Kind.TAINT, f"tainted {shown}", f"tolerate it: {{key: {key}, operator: Exists, effect: {effect}}}"
    )


def _amounts(requests: Mapping[str, Any]) -> str:
    return ", ".join(f"{amount} of {name}" for name, amount in requests.items())
