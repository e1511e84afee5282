"""What the webhook knows of the cluster: followed where it is asked often, looked up where freshness counts.

Classes and namespaces are few and followed whole; of slices only the kinds of devices are kept, see `lint.Census`. What
was applied a moment ago (a class before the claim, a template before the Pod) may not have come by the watch yet, so what
is missed is asked for once more: "there is no such class" has to be true.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_driver.lint import Census, Surroundings
from dra_driver.lint.claims import DeviceClass, class_of
from dra_driver.lint.manifests import Manifest
from dra_driver.lint.nodes import of_value

log = structlog.get_logger(__name__)

_NAMED = {kind.kind: kind for kind in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)}
_MAX_NAMES = 250
Object = dict[str, Any]


class LiveCluster:
    """A `reviewer.Cluster` that follows an API server; thread-safe."""

    def __init__(self, client: Client, driver_name: str) -> None:
        """`client` answers lookups within the time that an admission may take."""
        self._client = client
        self._census = Census()
        self._lock = threading.Lock()
        self._classes: dict[str, DeviceClass] = {}
        self._class_reflector = Reflector(client, DEVICE_CLASSES, on_event=self._class_changed)
        self._namespaces = Reflector(client, NAMESPACES)
        self._slices = Reflector(
            client,
            RESOURCE_SLICES,
            field_selector=f"spec.driver={driver_name}",
            transform=self._compact,
            on_event=self._slice_changed,
        )
        self._reflectors = (self._class_reflector, self._namespaces, self._slices)

    def start(self) -> None:
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        for reflector in self._reflectors:
            reflector.stop()

    def ready(self) -> None:
        """UnavailableError until everything was listed once."""
        for reflector in self._reflectors:
            if not reflector.synced.is_set():
                raise UnavailableError(reflector.error or "the cluster is still being read")

    def surroundings(self, classes: Iterable[str]) -> Surroundings:
        for name in classes:
            if name not in self._classes:
                self._look_for_class(name)
        with self._lock:
            return Surroundings(self._census.devices(), dict(self._classes))

    def namespace(self, name: str) -> Object | None:
        return self._namespaces.get(name) or self._get(NAMESPACES, name, None)

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._get(_NAMED[kind], name, namespace)

    def names(self, kind: str, namespace: str) -> Iterable[str]:
        pages = self._client.pages(_NAMED[kind], namespace=namespace, limit=_MAX_NAMES)
        return [item["metadata"]["name"] for item in next(iter(pages))["items"]]

    def _get(self, resource: Resource, name: str, namespace: str | None) -> Object | None:
        try:
            found = self._client.get(resource, name, namespace)
        except (NotFoundError, ValueError):  # ValueError: a name that no object can have
            return None
        return {"apiVersion": resource.api_version, "kind": resource.kind, **found}

    def _look_for_class(self, name: str) -> None:
        try:
            found = self._get(DEVICE_CLASSES, name, None)
        except (ApiError, UnavailableError) as error:
            log.warning("class not looked up", device_class=name, err=str(error))
            return
        if found is not None:
            self._class_reflector.adopt(found)
            self._class_changed("ADDED", found)

    def _class_changed(self, event: str, obj: Object) -> None:
        name = obj["metadata"]["name"]
        with self._lock:
            if event == "DELETED":
                self._classes.pop(name, None)
            elif (found := _class(obj)) is not None:
                self._classes[name] = found

    def _compact(self, obj: Object) -> Object:
        """Of a slice, what identifies it, and the kinds of its devices."""
        metadata = {
            key: obj["metadata"][key] for key in ("name", "uid", "resourceVersion") if key in obj["metadata"]
        }
        return {"metadata": metadata, "kinds": self._census.kinds(obj.get("spec") or {})}

    def _slice_changed(self, event: str, obj: Mapping[str, Any]) -> None:
        if event == "DELETED":
            self._census.remove(obj["metadata"]["name"])
        else:
            self._census.put(obj["metadata"]["name"], obj["kinds"])


def _class(obj: Object) -> DeviceClass | None:
    file = of_value({"apiVersion": DEVICE_CLASSES.api_version, "kind": DEVICE_CLASSES.kind, **obj}, "class")
    found = class_of(Manifest(file, file.documents[0], 0))
    return None if found is None else DeviceClass(found.name, found.selectors)
