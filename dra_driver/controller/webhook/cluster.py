"""What the webhook knows of the cluster: followed where it is asked often, looked up where freshness counts.

Of slices only the kinds of our driver's devices are kept, see `lint.Census`. What was applied a moment ago (a class before
the claim, a template before the Pod) may not have come by the watch yet, so what is missed is asked for once more: "there
is no such class" has to be true.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from dra_driver.controller.cluster import Cluster
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

    def __init__(self, cluster: Cluster, lookups: Client, driver_name: str) -> None:
        """`lookups` answers within the time that an admission may take."""
        self._cluster = cluster
        self._lookups = lookups
        self._driver_name = driver_name
        self._census = Census()
        self._parsed: dict[str, tuple[str, DeviceClass]] = {}  # classes by name, with the version they are of
        self._namespaces = Reflector(lookups, NAMESPACES, transform=_labelled)
        cluster.subscribe(RESOURCE_SLICES, self._slice_changed)

    def start(self) -> None:
        self._namespaces.start()

    def stop(self) -> None:
        self._namespaces.stop()

    def ready(self) -> None:
        """UnavailableError until everything was listed once."""
        self._cluster.ready()
        if not self._namespaces.synced.is_set():
            raise UnavailableError(self._namespaces.error or "namespaces have not been listed yet")

    def surroundings(self, classes: Iterable[str]) -> Surroundings:
        for name in classes:
            if self._cluster.classes.get(name) is None:
                self._look_for_class(name)
        known = (self._class(obj) for obj in self._cluster.classes.snapshot())
        return Surroundings(
            self._census.devices(), {found.name: found for found in known if found is not None}
        )

    def namespace(self, name: str) -> Object | None:
        return self._namespaces.get(name) or self._get(NAMESPACES, name, None)

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._get(_NAMED[kind], name, namespace)

    def names(self, kind: str, namespace: str) -> Iterable[str]:
        pages = self._lookups.pages(_NAMED[kind], namespace=namespace, limit=_MAX_NAMES)
        return [item["metadata"]["name"] for item in next(iter(pages))["items"]]

    def _get(self, resource: Resource, name: str, namespace: str | None) -> Object | None:
        try:
            found = self._lookups.get(resource, name, namespace)
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
            self._cluster.classes.adopt(found)

    def _class(self, obj: Object) -> DeviceClass | None:
        name, version = obj["metadata"]["name"], obj["metadata"].get("resourceVersion", "")
        known = self._parsed.get(name)
        if known is None or known[0] != version:
            file = of_value(obj, "class")
            found = class_of(Manifest(file, file.documents[0], 0))
            if found is None:
                return None
            known = self._parsed[name] = version, DeviceClass(found.name, found.selectors)
        return known[1]

    def _slice_changed(self, event: str, obj: Mapping[str, Any]) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        if event == "DELETED":
            self._census.remove(name)
        elif spec.get("driver") == self._driver_name:
            self._census.put(name, self._census.kinds(spec))


def _labelled(obj: Object) -> Object:
    """Of a namespace, what identifies it, and its labels."""
    kept = ("name", "uid", "resourceVersion", "labels")
    metadata = {key: obj["metadata"][key] for key in kept if key in obj["metadata"]}
    return {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": metadata}
