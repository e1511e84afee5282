"""The one change that would make claims fit: every change that is named has been tried, on the node that is named.

Tried in the order in which they cost the user least: a selector that fails gets its guard, then somebody else's
claim goes, then the wish itself is changed (see `edits`). Only nodes that look promising are tried: the first of each
group that says the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_driver.allocation.allocator import Snapshot
from dra_driver.allocation.errors import AllocationError, NodeError
from dra_driver.allocation.explanation.edits import edits, wishes
from dra_driver.allocation.explanation.guarding import guards
from dra_driver.allocation.explanation.model import Change, Holder, Kind, NodeReport
from dra_driver.allocation.explanation.scene import Scene
from dra_driver.allocation.model import Device, DeviceId
from dra_driver.allocation.nodes import node_name

Object = Mapping[str, Any]

_MAX_NODES = 12
_MAX_HOLDERS = 24
_MAX_CHANGES = 3
_TIMEOUT = 0.5  # seconds for one try on one node


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is to be made to fit, and where; `errors` are the nodes on which the allocator aborts now."""

    scene: Scene
    claims: Sequence[Object]
    nodes: Sequence[Object]
    errors: Sequence[Object]

    def fits(self, snapshot: Snapshot, claims: Sequence[Object]) -> str | None:
        """The first node on which the claims fit, where no node has an error any more."""
        for node in self.nodes:
            try:
                if snapshot.allocate(claims, node=node, timeout=_TIMEOUT) is not None:
                    return node_name(node) if self._no_errors(snapshot, claims) else None
            except AllocationError:
                continue
        return None

    def _no_errors(self, snapshot: Snapshot, claims: Sequence[Object]) -> bool:
        for node in self.errors:
            try:
                snapshot.allocate(claims, node=node, timeout=_TIMEOUT)
            except NodeError:
                continue
            except AllocationError:
                return False
        return True

    def devices(self) -> Mapping[DeviceId, Device]:
        pools = (pool for node in self.nodes for pool in self.scene.snapshot.slices.readable_pools(node))
        return {device.id: device for pool in pools for part in pool.slices for device in part.devices}


def changes(
    scene: Scene, claims: Sequence[Object], nodes: Sequence[Object], groups: Sequence[NodeReport]
) -> tuple[Change, ...]:
    """Up to three changes, the best first; nothing where no single one helps."""
    by_name = {node_name(node): node for node in nodes}
    waiting = [group for group in groups if group.requests][:_MAX_NODES]
    stopping = [group for group in groups if group.error]
    failing = [group for group in stopping if _selector_fails(group)]
    fitting = [group for group in groups if group.fits][:1]
    # One node with an error stops the scheduler, so a change has to end all of them.
    errors = [by_name[group.nodes[0]] for group in stopping]
    if failing:
        tried = [by_name[group.nodes[0]] for group in (*fitting, *failing[:_MAX_NODES], *waiting)]
        found = _guarded(_Trial(scene, claims, tried, errors), failing)
    else:
        found = _changed(
            _Trial(scene, claims, [by_name[group.nodes[0]] for group in waiting], errors), waiting
        )
    return tuple(change for change, _ in zip(found, range(_MAX_CHANGES), strict=False))


def _selector_fails(group: NodeReport) -> bool:
    devices = (device for request in group.requests for device in request.devices)
    return any(blocker.kind is Kind.ERROR for device in devices for blocker in device.blockers)


def _guarded(trial: _Trial, groups: Sequence[NodeReport]) -> Iterator[Change]:
    for edit in guards(trial.scene, trial.claims, groups, trial.devices()):
        where = trial.fits(*edit.applied(trial.scene.snapshot, trial.claims))
        if where is not None:
            yield edit.change(where)


def _changed(trial: _Trial, groups: Sequence[NodeReport]) -> Iterator[Change]:
    for holder in _holders(groups)[:_MAX_HOLDERS]:
        where = trial.fits(trial.scene.without(holder.claim), trial.claims)
        if where is not None:
            yield Change(f"wait until {holder} is gone, or delete it", where)
            break  # others of the same kind are as good
    done: set[str] = set()
    for edit in edits(trial.scene, trial.claims, list(wishes(trial.claims, groups, trial.devices()))):
        if edit.part in done:
            continue  # of several ways to change one part, the first that works is enough
        where = trial.fits(*edit.applied(trial.scene.snapshot, trial.claims))
        if where is not None:
            done.add(edit.part)
            yield edit.change(where)


def _holders(groups: Sequence[NodeReport]) -> list[Holder]:
    """Who holds devices that nothing else keeps from the claims."""
    found: dict[Holder, None] = {}
    for group in groups:
        for request in group.requests:
            for device in request.devices:
                if all(blocker.holders for blocker in device.blockers):
                    found.update(dict.fromkeys(one for blocker in device.blockers for one in blocker.holders))
    return list(found)
