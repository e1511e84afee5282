"""Whether a Pod that has a node got its devices there, from its status and from the kubelet's Events."""

import re
from collections.abc import Iterable, Iterator, Sequence

from dra_driver.allocation.diagnosis.model import Remark
from dra_driver.allocation.diagnosis.world import Object, drivers_of

FAILED = "FailedPrepareDynamicResources"
_NOT_REGISTERED = re.compile(r"DRA driver (\S+) is not registered")
_FAILED_CLAIM = re.compile(r"NodePrepareResources failed for ResourceClaim (\S+): (.*)", re.DOTALL)
_READY_PHASES = frozenset({"Running", "Succeeded"})


def preparation(pod: Object, claims: Sequence[Object], events: Iterable[Object]) -> Iterator[Remark]:
    """What is said about preparing the claims of a Pod on its node."""
    node = pod["spec"].get("nodeName")
    phase = (pod.get("status") or {}).get("phase")
    if phase in _READY_PHASES:
        yield Remark("prepared", "info", f"its devices are prepared on node {node}")
        return
    newest = max((event for event in events if _is_about(event, pod)), key=_time, default=None)
    if newest is not None:
        yield _failure(str(newest.get("message") or ""), claims, str(node))
        return
    for status in _waiting(pod):
        yield status
        return
    yield Remark("not-prepared", "warning", f"node {node} has not said yet that its devices are prepared")


def _is_about(event: Object, pod: Object) -> bool:
    about, meta = event.get("involvedObject") or {}, pod["metadata"]
    same = about.get("name") == meta["name"] and about.get("namespace") == (
        meta.get("namespace") or "default"
    )
    return same and event.get("reason") == FAILED and about.get("uid") in {None, "", meta.get("uid")}


def _time(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def _failure(message: str, claims: Sequence[Object], node: str) -> Remark:
    if (unregistered := _NOT_REGISTERED.search(message)) is not None:
        driver = unregistered[1]
        text = f"not prepared: driver {driver} does not run on node {node}, or the kubelet has refused it"
        return Remark(
            "driver-not-registered", "error", text, f"look at the plugin of {driver} on node {node}"
        )
    if (failed := _FAILED_CLAIM.search(message)) is not None:
        claim = next((one for one in claims if one["metadata"]["name"] == failed[1]), None)
        said = " ".join(failed[2].split())
        return Remark("prepare-failed", "error", f"not prepared: {_blamed(claim)} said: {said}")
    return Remark("prepare-failed", "error", f"not prepared: {' '.join(message.split())}")


def _blamed(claim: Object | None) -> str:
    """The driver that failed: the kubelet does not name it, so those that report a ready device are left out."""
    if claim is None:
        return "a driver"
    ready = {
        device.get("driver")
        for device in (claim.get("status") or {}).get("devices") or ()
        if any(
            one.get("type") == "Ready" and one.get("status") == "True"
            for one in device.get("conditions") or ()
        )
    }
    drivers = [driver for driver in drivers_of(claim) if driver not in ready] or drivers_of(claim)
    if len(drivers) == 1:
        return f"driver {drivers[0]}"
    return f"one of the drivers {', '.join(drivers)}"


def _waiting(pod: Object) -> Iterator[Remark]:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            said = f"{waiting.get('reason')}: {' '.join(str(waiting['message']).split())}"
            yield Remark(
                "container-waiting", "error", f"container {container.get('name')} does not start: {said}"
            )
