"""The cluster as the controller knows it: one copy of what is looked at, for all its parts.

Pods are only those without a node, since nobody here asks about others and a large cluster has half a million of them.
The node plugin's own Pods are followed apart, in our namespace, to see which pools have a driver behind them.

Every replica follows, not just the leader: the webhook of each needs slices and classes, and a new leader goes to work at
once.
"""

import threading
from collections.abc import Callable

from dra_driver.controller import compact
from dra_driver.controller.compact import Object
from dra_driver.errors import UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_driver.process import collector

_STOP_SECONDS = 5.0
PLUGIN_LABELS = "app.kubernetes.io/name=dra-driver,app.kubernetes.io/component=kubelet-plugin"

Handler = Callable[[str, Object], None]
"""Gets ADDED, MODIFIED or DELETED and the object, in the thread that follows its kind; to be quick."""


class Cluster:
    """A part of the controller; objects are compact (see `compact`), and not to be changed."""

    name = "cluster"

    def __init__(self, client: Client, *, namespace: str) -> None:
        """`namespace`: where the node plugin's Pods are."""
        self.changed = threading.Event()  # set with every change; for one listener, who clears it
        self._handlers: dict[Resource, list[Handler]] = {}
        self._versions: dict[str, int] = {}

        def follow(
            resource: Resource, transform: Callable[[Object], Object], selector: str | None = None
        ) -> Reflector:
            return Reflector(
                client,
                resource,
                field_selector=selector,
                transform=transform,
                on_event=lambda kind, obj: self._heard(resource, kind, obj),
            )

        self.slices = follow(RESOURCE_SLICES, compact.slice_)
        self.classes = follow(DEVICE_CLASSES, compact.device_class)
        self.claims = follow(RESOURCE_CLAIMS, compact.claim)
        self.templates = follow(RESOURCE_CLAIM_TEMPLATES, compact.template)
        self.pods = follow(PODS, compact.pod, "spec.nodeName=")
        self.nodes = follow(NODES, compact.node)
        self.plugins = Reflector(
            client, PODS, namespace=namespace, label_selector=PLUGIN_LABELS, transform=compact.pod
        )
        self._all = (
            self.classes,
            self.slices,
            self.nodes,
            self.claims,
            self.templates,
            self.pods,
            self.plugins,
        )
        self._settling = threading.Thread(target=self._settle, name="settle", daemon=True)
        self._stop = threading.Event()

    def subscribe(self, resource: Resource, handler: Handler) -> None:
        """Let `handler` hear of every change of a kind; before `start`."""
        self._handlers.setdefault(resource, []).append(handler)

    def version(self, *resources: Resource) -> tuple[int, ...]:
        """Differs from an earlier one where any of these kinds has changed since."""
        return tuple(self._versions.get(resource.plural, 0) for resource in resources)

    def start(self) -> None:
        for reflector in self._all:
            reflector.start()
        self._settling.start()

    def stop(self) -> None:
        self._stop.set()
        for reflector in self._all:
            reflector.stop()
        if self._settling.is_alive():
            self._settling.join(_STOP_SECONDS)

    def ready(self) -> None:
        """UnavailableError until everything has been listed once."""
        for reflector in self._all:
            if not reflector.synced.is_set():
                error = f": {reflector.error}" if reflector.error else ""
                raise UnavailableError(f"{reflector.name} have not been listed yet{error}")

    def adopt_class(self, obj: Object) -> None:
        """Take in one that was looked up, ahead of the watch, which then tells of no change."""
        self.classes.adopt(obj)
        self._note(DEVICE_CLASSES)

    def _note(self, resource: Resource) -> None:
        self._versions[resource.plural] = self._versions.get(resource.plural, 0) + 1
        self.changed.set()

    def _heard(self, resource: Resource, kind: str, obj: Object) -> None:
        self._note(resource)
        for handler in self._handlers.get(resource, ()):
            handler(kind, obj)

    def _settle(self) -> None:
        """Once all is here, tell the garbage collector that it stays."""
        for reflector in self._all:
            while not reflector.synced.wait(0.2):
                if self._stop.is_set():
                    return
        collector.settled()
