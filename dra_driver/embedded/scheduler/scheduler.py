"""The loop: whenever something changed, try every Pod that waits.

One thread decides about one Pod after the other, by priority, then age; so what one Pod gets is known when the
next is looked at. Nodes are tried from the one with the fewest Pods, then by name: the same objects give the same
placement. A Pod that cannot be placed says why, and is tried again when slices, claims, classes, nodes or Pods
change.
"""

import threading
from collections import Counter

import structlog

from dra_driver.allocation import Snapshot
from dra_driver.embedded.claims import Object
from dra_driver.embedded.events import PodEvents
from dra_driver.embedded.pods import TERMINAL_PHASES
from dra_driver.embedded.scheduler.claims import NotYetError
from dra_driver.embedded.scheduler.cycle import Cycle
from dra_driver.embedded.scheduler.verdict import Verdict, rejected
from dra_driver.embedded.scheduler.writes import Writer
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 0.5  # after a write that failed; mostly the watch wakes us before
_NAME = "default-scheduler"


class Scheduler:
    """Schedules the Pods of a cluster until stopped."""

    def __init__(self, client: Client) -> None:
        self._events = PodEvents(client, _NAME)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._devices_changed = threading.Event()  # slices or classes, since the snapshot was made
        self._devices_changed.set()
        self._snapshot = Snapshot((), (), ())
        self._bound: dict[str, str] = {}  # node by Pod uid, for Pods that the watch still shows without one
        self._pods, self._nodes, self._claims = (
            Reflector(client, resource, on_event=self._changed) for resource in (PODS, NODES, RESOURCE_CLAIMS)
        )
        self._slices, self._classes = (
            Reflector(client, resource, on_event=self._outdated)
            for resource in (RESOURCE_SLICES, DEVICE_CLASSES)
        )
        self._reflectors = (self._pods, self._nodes, self._claims, self._slices, self._classes)
        self._writer = Writer(client, self._claims, self._pods)
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def start(self) -> None:
        for reflector in self._reflectors:
            reflector.start()
        self._thread.start()

    def stop(self) -> None:
        """End after the Pod at hand."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        for reflector in self._reflectors:
            reflector.stop()

    def _changed(self, _kind: str, _obj: Object) -> None:
        self._wake.set()

    def _outdated(self, _kind: str, _obj: Object) -> None:
        self._devices_changed.set()
        self._wake.set()

    def _run(self) -> None:
        retry = False
        while not self._stop.is_set():
            self._wake.wait(_RETRY_SECONDS if retry else None)
            self._wake.clear()
            if not all(reflector.synced.is_set() for reflector in self._reflectors):
                retry = True
                continue
            retry = self._try_all()

    def _try_all(self) -> bool:
        """Look at every waiting Pod; whether one has to be tried again without a change."""
        pods = self._pods.snapshot()
        unseen = {pod["metadata"]["uid"] for pod in pods if not pod["spec"].get("nodeName")}
        self._bound = {uid: node for uid, node in self._bound.items() if uid in unseen}
        if self._devices_changed.is_set():
            self._devices_changed.clear()  # before reading: what changes from here on is for the next time
            self._snapshot = Snapshot(self._slices.snapshot(), self._classes.snapshot(), ())
        cycle = Cycle(
            nodes=self._nodes.snapshot(),
            pods_on=Counter(node for pod in pods if (node := self._node_of(pod))),
            classes=self._classes.snapshot(),
            snapshot=self._snapshot,
            claims=self._claims,
            writer=self._writer,
        )
        waiting = sorted((pod for pod in pods if _waits(pod) and not self._node_of(pod)), key=_order)
        retry = False
        for pod in waiting:
            if not self._stop.is_set():
                retry |= self._schedule(cycle, pod)
        return retry

    def _node_of(self, pod: Object) -> str | None:
        """The node a Pod is on, unless it has ended."""
        if (pod.get("status") or {}).get("phase") in TERMINAL_PHASES:
            return None
        return pod["spec"].get("nodeName") or self._bound.get(pod["metadata"]["uid"])

    def _schedule(self, cycle: Cycle, pod: Object) -> bool:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        try:
            try:
                outcome = cycle.place(pod)
            except NotYetError as error:
                if not str(error):
                    return False
                outcome = rejected(str(error), len(self._nodes.snapshot()), has_claims=True)
            if isinstance(outcome, Verdict):
                if self._writer.set_verdict(pod, outcome):
                    self._wake.set()  # the answer may have brought news of others, which the watch then does not tell
                    self._events.warning(pod, "FailedScheduling", outcome.message)
                return False
        except NotFoundError:
            return False  # deleted meanwhile
        except (ApiError, UnavailableError) as error:
            log.info("pod not scheduled, trying again", pod=name, err=str(error))
            return True
        except Exception:  # an object that nobody thought of must not keep all other Pods waiting
            log.exception("pod not scheduled", pod=name)
            return False
        self._bound[pod["metadata"]["uid"]] = outcome
        log.info("pod scheduled", pod=name, node=outcome)
        self._events.normal(pod, "Scheduled", f"Successfully assigned {name} to {outcome}")
        return False


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
        and spec.get("schedulerName", _NAME) == _NAME
    )


def _order(pod: Object) -> tuple[int, str, str, str]:
    metadata = pod["metadata"]
    created = str(metadata.get("creationTimestamp") or "")
    return -int(pod["spec"].get("priority") or 0), created, metadata["namespace"], metadata["name"]
