"""One Pod's life on a node: prepare, make containers, run, stop, unprepare, delete.

Each Pod has a thread, so one whose driver is slow holds up no other. The order is the kubelet's: claims are
prepared before anything of the Pod exists; after its containers ended they are unprepared before the API server
hears that the Pod is over, since it may then give the devices to somebody else; and as long as unpreparing fails
the Pod stays Terminating.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from dra_driver.embedded.events import PodEvents
from dra_driver.embedded.kubelet import status
from dra_driver.embedded.kubelet.containers import ContainerView, Runtime
from dra_driver.embedded.kubelet.errors import ContainerError, KubeletError, RunContainerError
from dra_driver.embedded.kubelet.manager import ClaimManager
from dra_driver.embedded.kubelet.timing import Timing
from dra_driver.embedded.pods import TERMINAL_PHASES, patch_status
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError, ObjectConflictError
from dra_driver.kube.events import timestamp
from dra_driver.kube.resources import PODS

log = structlog.get_logger(__name__)

_ACCESS = "can be accessed by the pod"


@dataclass(frozen=True, slots=True)
class Node:
    """What the workers of a node share."""

    client: Client
    claims: ClaimManager
    runtime: Runtime
    events: PodEvents
    timing: Timing
    host_ip: str


class PodWorker:
    """Brings one Pod to its wanted state. `ended` is called when there is nothing left to do for it."""

    def __init__(
        self, pod: dict[str, Any], node: Node, pod_ip: str, ended: Callable[["PodWorker"], None]
    ) -> None:
        metadata = pod["metadata"]
        self.uid: str = metadata["uid"]
        self.key = f"{metadata['namespace']}/{metadata['name']}"
        self._namespace: str = metadata["namespace"]
        self._name: str = metadata["name"]
        self._pod = pod
        self._node = node
        self._pod_ip = node.host_ip if pod["spec"].get("hostNetwork") else pod_ip
        self._ended = ended
        self._deleted = False  # the object is gone
        self._stopping = False
        self._started_at = (pod.get("status") or {}).get("startTime") or timestamp()
        self._sandbox = False
        self._containers = status.containers_of(pod)
        self._views: dict[str, ContainerView] = {}
        self._sent: dict[str, Any] | None = None
        self._backoff = Backoff(node.timing.pod_retry, node.timing.pod_retry_cap)
        self._lock = threading.Lock()  # of _pod, _deleted, _views
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pod-{self._name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def update(self, pod: dict[str, Any]) -> None:
        """Take in a newer state of the object."""
        with self._lock:
            # Our own status, which comes back here, must not cut the time between two attempts short.
            news = _relevant(pod) != _relevant(self._pod)
            self._pod = pod
        if news:
            self._wake.set()

    def deleted(self) -> None:
        """The object is gone, whoever deleted it."""
        with self._lock:
            self._deleted = True
        self._wake.set()

    def stop(self) -> None:
        """Have the thread end and leave everything as it is, as a kubelet does that is stopped."""
        self._stopping = True
        self._wake.set()

    def join(self) -> None:
        """Wait for the thread's end."""
        if self._thread.is_alive():
            self._thread.join()

    def views(self) -> dict[str, ContainerView]:
        """The running containers."""
        with self._lock:
            return dict(self._views)

    def _run(self) -> None:
        while True:
            self._wake.clear()  # before anything is looked at, so that no news gets lost
            if self._stopping:
                return
            try:
                if self._sync():
                    self._ended(self)
                    return
            except (KubeletError, ApiError, UnavailableError) as error:
                log.warning("pod not in its wanted state", pod=self.key, pod_uid=self.uid, err=str(error))
                self._wake.wait(self._backoff.delay())
            except Exception:  # without this thread the Pod could not even be deleted
                log.exception("pod not in its wanted state", pod=self.key, pod_uid=self.uid)
                self._wake.wait(self._backoff.delay())
            else:
                self._backoff.reset()
                self._wake.wait()

    def _sync(self) -> bool:
        """One attempt: whether all is done for ever, rather than until there is news."""
        with self._lock:
            pod, deleted = self._pod, self._deleted
        if deleted:
            self._terminate()
            return True
        if pod["metadata"].get("deletionTimestamp"):
            for name in self.views():
                self._node.events.normal(pod, "Killing", f"Stopping container {name}", _field_path(pod, name))
            try:
                self._terminate()
            except KubeletError:
                self._send(pod)  # containers have ended, the Pod has not
                raise
            self._send(pod, over=True)
            self._delete()
            return True
        if _phase(pod) in TERMINAL_PHASES:
            self._terminate()
        else:
            self._start(pod)
        return False

    def _start(self, pod: dict[str, Any]) -> None:
        if not self._sandbox:
            if _phase(pod) == "Pending":  # else an earlier kubelet ran it, and it stays Running
                self._send(pod)
            try:
                self._node.claims.prepare(pod)
            except KubeletError as error:
                if self._stopping:
                    raise
                self._node.events.warning(
                    pod, "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {error}"
                )
                raise
            self._sandbox = True
        failures = [
            failure
            for container in status.specs_of(pod)
            if not self._containers[container["name"]].started_at
            and (failure := self._create(pod, container)) is not None
        ]
        self._send(pod)
        if failures:
            raise failures[0]

    def _create(self, pod: dict[str, Any], container: dict[str, Any]) -> ContainerError | None:
        """Make and start a container; what it failed of."""
        name, events = container["name"], self._node.events
        field_path = _field_path(pod, name)
        text = f'Container image "{container.get("image", "")}" already present on machine and {_ACCESS}'
        events.normal(pod, "Pulled", text, field_path)
        try:
            view = self._node.runtime.create(container, self._node.claims.cdi_ids(pod, container))
        except ContainerError as error:
            if isinstance(error, RunContainerError):
                events.normal(pod, "Created", "Container created", field_path)
            events.warning(pod, "Failed", f"Error: {error}", field_path)
            self._containers[name] = replace(self._containers[name], reason=error.reason, message=str(error))
            return error
        started = self._containers[name].started()
        if _is_initial(pod, name) and container.get("restartPolicy") != "Always":
            started = started.ended()
        else:
            with self._lock:
                self._views[name] = view
        self._containers[name] = started
        events.normal(pod, "Created", "Container created", field_path)
        events.normal(pod, "Started", "Container started", field_path)
        return None

    def _terminate(self) -> None:
        """Stop the containers, then unprepare the claims."""
        with self._lock:
            self._views.clear()
        for name, container in self._containers.items():
            if container.running:
                self._containers[name] = container.ended()
        self._node.claims.unprepare(self.uid)

    def _send(self, pod: dict[str, Any], *, over: bool = False) -> None:
        """Patch the status, if it changed since it was sent; that of a Pod that is over stays as it is."""
        if _phase(pod) in TERMINAL_PHASES:
            return
        body = status.pod_status(
            pod,
            self._containers,
            sandbox=self._sandbox,
            over=over,
            host_ip=self._node.host_ip,
            pod_ip=self._pod_ip,
            started_at=self._started_at,
        )
        if body == self._sent:
            return
        try:
            patch_status(self._node.client, pod, body)
        except NotFoundError:
            return  # deleted by force: the watch tells
        self._sent = body

    def _delete(self) -> None:
        """Remove the object for good, unless it is another Pod's by now."""
        try:
            self._node.client.delete(
                PODS, self._name, namespace=self._namespace, uid=self.uid, grace_period_seconds=0
            )
        except (NotFoundError, ObjectConflictError):
            log.debug("pod was deleted by somebody else", pod=self.key, pod_uid=self.uid)


def _is_initial(pod: dict[str, Any], name: str) -> bool:
    return any(container["name"] == name for container in pod["spec"].get("initContainers") or ())


def _field_path(pod: dict[str, Any], name: str) -> str:
    """A container, as Events name it."""
    return f"spec.{'initContainers' if _is_initial(pod, name) else 'containers'}{{{name}}}"


def _phase(pod: dict[str, Any]) -> str:
    phase: str = (pod.get("status") or {}).get("phase") or "Pending"
    return phase


def _relevant(pod: dict[str, Any]) -> tuple[Any, ...]:
    """What of a Pod tells the kubelet to act."""
    known = pod.get("status") or {}
    return (
        pod["metadata"].get("deletionTimestamp"),
        known.get("resourceClaimStatuses"),
        known.get("extendedResourceClaimStatus"),
        _phase(pod) in TERMINAL_PHASES,
    )
