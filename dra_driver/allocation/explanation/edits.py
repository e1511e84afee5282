"""Changes of claims worth trying, from what reports say is in the way; whether they help is for others to find out.

In the order in which they change the least of what was wished for.
"""

import copy
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_driver.allocation.allocator import Snapshot
from dra_driver.allocation.explanation.constants import proposals
from dra_driver.allocation.explanation.model import Change, Kind, NodeReport
from dra_driver.allocation.explanation.scene import Scene, alternatives_of, name_of
from dra_driver.allocation.model import Device, DeviceId
from dra_driver.allocation.requests import Claim, Request
from dra_driver.quantity import Format, Quantity
from dra_driver.selectors.comparisons import conditions, with_constant

Object = Mapping[str, Any]
Mend = Callable[[dict[str, Any]], None]

_MAX_CLASSES = 10
_MAX_DEVICES = 256


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one claim, or of a class; `part` names what it changes, and `mend` changes a copy of it."""

    part: str
    text: str
    mend: Mend
    claim: int | None = None  # its index; None: a class
    device_class: str = ""
    request: str | None = None
    before: str | None = None
    after: str | None = None

    def applied(self, snapshot: Snapshot, claims: Sequence[Object]) -> tuple[Snapshot, Sequence[Object]]:
        """The snapshot and claims with the change; the given ones stay as they are."""
        if self.claim is None:
            changed = copy.deepcopy(dict(snapshot.classes[self.device_class]))
            self.mend(changed)
            return snapshot.with_class(changed), claims
        wanted = copy.deepcopy(dict(claims[self.claim]))
        self.mend(wanted)
        return snapshot, [wanted if index == self.claim else one for index, one in enumerate(claims)]

    def change(self, node: str) -> Change:
        """The change, once it is known to help on a node."""
        return Change(self.text, node, self.request, self.before, self.after)


@dataclass(frozen=True, slots=True)
class Wish:
    """A request or subrequest in its claim, and the devices that something keeps from it."""

    claim: int
    name: str  # as texts name it
    request: Request
    position: tuple[int, int | None]
    devices: tuple[Device, ...]
    kinds: frozenset[Kind]
    failing: frozenset[str]  # texts of conditions that are false
    free: int  # the most on one node

    def edit(self, part: str, text: str, mend: Mend, **shown: str) -> Edit:
        """A change of this request: `mend` is given its ExactDeviceRequest or DeviceSubRequest."""
        index, alternative = self.position

        def within(claim: dict[str, Any]) -> None:
            entry = claim["spec"]["devices"]["requests"][index]
            mend(entry["exactly"] if alternative is None else entry["firstAvailable"][alternative])

        return Edit(
            f"{self.name} {part}", f"request {self.name}: {text}", within, self.claim, "", self.name, **shown
        )


def wishes(
    claims: Sequence[Object], groups: Sequence[NodeReport], devices: Mapping[DeviceId, Device]
) -> Iterator[Wish]:
    """Every request with what the reports of these nodes say of it."""
    for number, raw in enumerate(claims):
        claim = Claim(raw)
        for index, alternatives in enumerate(alternatives_of(claim)):
            for sub, request in enumerate(alternatives):
                reports = [
                    one
                    for group in groups
                    for one in group.requests
                    if (one.claim, one.request) == (claim.name, request.full_name)
                ]
                blocked = [one for report in reports for one in report.devices if one.blockers][:_MAX_DEVICES]
                blockers = [blocker for one in blocked for blocker in one.blockers]
                yield Wish(
                    number,
                    request.full_name if len(claims) == 1 else f"{name_of(raw)}/{request.full_name}",
                    request,
                    (index, None if request.subrequest is None else sub),
                    tuple(devices[one.device] for one in blocked if one.device in devices),
                    frozenset(blocker.kind for blocker in blockers),
                    frozenset(miss.comparison for blocker in blockers for miss in blocker.misses),
                    max((len(report.free) for report in reports), default=0),
                )


def edits(scene: Scene, claims: Sequence[Object], wanted: Sequence[Wish]) -> Iterator[Edit]:
    """What could be changed, the least first."""
    for kind in (_tolerations, _constants, _counts, _capacities):
        for wish in wanted:
            yield from kind(scene, wish)
    yield from _constraints(claims)
    for kind in (_selectors, _classes):
        for wish in wanted:
            yield from kind(scene, wish)


def _tolerations(_: Scene, wish: Wish) -> Iterator[Edit]:
    if Kind.TAINT not in wish.kinds:
        return
    taints = {
        (taint["key"], taint["effect"]): None
        for device in wish.devices
        for taint in device.raw.get("taints") or ()
    }
    for key, effect in taints:
        toleration = {"key": key, "operator": "Exists", "effect": effect}

        def mend(request: dict[str, Any], toleration: Object = toleration) -> None:
            request["tolerations"] = [*request.get("tolerations", ()), toleration]

        text = f"tolerate the taint: {{key: {key}, operator: Exists, effect: {effect}}}"
        yield wish.edit(f"taint {key}", text, mend)


def _constants(_: Scene, wish: Wish) -> Iterator[Edit]:
    for index, selector in enumerate(wish.request.selectors):
        expression = selector["cel"]["expression"]
        for condition in conditions(expression):
            if condition.comparison is None or condition.text not in wish.failing:
                continue
            for value in proposals(condition.comparison, wish.devices):
                other = with_constant(expression, condition.comparison, value)
                compared = condition.comparison
                text = f"selector {index}: compare {compared.read.name} with {value} instead of {compared.wanted}"
                yield wish.edit(
                    f"selector {index}", text, _with_expression(index, other), before=expression, after=other
                )


def _with_expression(index: int, expression: str) -> Mend:
    def mend(request: dict[str, Any]) -> None:
        request["selectors"][index] = {"cel": {"expression": expression}}

    return mend


def _counts(_: Scene, wish: Wish) -> Iterator[Edit]:
    request = wish.request
    most = wish.free if request.wants_all else min(request.count - 1, wish.free)
    for count in range(most, 0, -1):

        def mend(raw: dict[str, Any], count: int = count) -> None:
            raw.update(allocationMode="ExactCount", count=count)

        instead = "all" if request.wants_all else str(request.count)
        yield wish.edit("count", f"ask for {count} instead of {instead}", mend)


def _capacities(scene: Scene, wish: Wish) -> Iterator[Edit]:
    for name, asked in wish.request.capacity.items():
        left = set()
        for device in wish.devices:
            if name in device.capacity:
                total = Quantity.parse(str(device.capacity[name]["value"])).nanos
                left.add(total - (scene.snapshot.allocated.capacity.get(device.id) or {}).get(name, 0))
        for amount in sorted((one for one in left if one > 0), reverse=True)[:4]:
            shown = str(Quantity(amount, Format.BINARY_SI))

            def mend(raw: dict[str, Any], name: str = name, shown: str = shown) -> None:
                raw["capacity"]["requests"][name] = shown

            yield wish.edit(f"capacity {name}", f"ask for {shown} of {name} instead of {asked}", mend)


def _constraints(claims: Sequence[Object]) -> Iterator[Edit]:
    for number, claim in enumerate(claims):
        devices = claim["spec"].get("devices") or {}
        for index, entry in enumerate(devices.get("constraints") or ()):
            kind, name = next(
                (key, entry[key])
                for key in ("matchAttribute", "distinctAttribute", "requests")
                if key in entry
            )

            def mend(raw: dict[str, Any], index: int = index) -> None:
                del raw["spec"]["devices"]["constraints"][index]

            where = f" of claim {name_of(claim)}" if len(claims) > 1 else ""
            yield Edit(
                f"constraint {number} {index}",
                f"leave out the constraint {kind}: {name}{where}",
                mend,
                number,
            )


def _selectors(_: Scene, wish: Wish) -> Iterator[Edit]:
    for index, selector in enumerate(wish.request.selectors):

        def mend(raw: dict[str, Any], index: int = index) -> None:
            del raw["selectors"][index]

        expression = selector["cel"]["expression"]
        yield wish.edit(f"selector {index}", f"leave out selector {index}", mend, before=expression)


def _classes(scene: Scene, wish: Wish) -> Iterator[Edit]:
    others: Iterable[str] = (name for name in scene.snapshot.classes if name != wish.request.class_name)
    near = sorted(
        others, key=lambda name: -difflib.SequenceMatcher(None, name, wish.request.class_name).ratio()
    )
    for name in near[:_MAX_CLASSES]:

        def mend(raw: dict[str, Any], name: str = name) -> None:
            raw["deviceClassName"] = name

        yield wish.edit("class", f"use the class {name} instead of {wish.request.class_name}", mend)
