"""What the webhook knows of the cluster: followed where it is asked often, looked up where freshness counts.

Of slices only the kinds of our driver's devices are kept, see `lint.Census`. What was applied a moment ago (a class before
the claim, a template before the Pod) may not have come by the watch yet, so what is missed is asked for once more: "there
is no such class" has to be true.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
_SECONDS = 1.0
Object = dict[str, Any]


class LiveCluster:
    """Follows an API server, for all reviews; thread-safe."""

    def __init__(self, cluster: Cluster, client: Client, lookups: Client, driver_name: str) -> None:
        """`lookups` gives up after a time that, with the second of `Asked`, is less than an admission may take."""
        self._cluster = cluster
        self._lookups = lookups
        self._driver_name = driver_name
        self._census = Census()
        self._parsed: dict[str, tuple[str, DeviceClass]] = {}  # classes by name, with the version they are of
        self._namespaces = Reflector(client, NAMESPACES, transform=_labelled)
        cluster.subscribe(RESOURCE_SLICES, self._slice_changed)
        cluster.subscribe(DEVICE_CLASSES, self._class_changed)

    def start(self) -> None:
        self._namespaces.start()

    def stop(self) -> None:
        self._namespaces.stop()

    def ready(self) -> None:
        """UnavailableError until everything was listed once."""
        self._cluster.ready()
        if not self._namespaces.synced.is_set():
            raise UnavailableError(self._namespaces.error or "namespaces have not been listed yet")

    def asked(self) -> "Asked":
        """For one review."""
        return Asked(self, self._lookups)

    def namespace(self, name: str) -> Object | None:
        return self._namespaces.get(name)

    def has_class(self, name: str) -> bool:
        return self._cluster.classes.get(name) is not None

    def adopt_class(self, obj: Object) -> None:
        """Take in one that was looked up, ahead of the watch."""
        self._cluster.adopt_class(obj)

    def surroundings(self) -> Surroundings:
        known = (self._class(obj) for obj in self._cluster.classes.snapshot())
        return Surroundings(
            self._census.devices(), {found.name: found for found in known if found is not None}
        )

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

    def _class_changed(self, event: str, obj: Mapping[str, Any]) -> None:
        if event == "DELETED":
            self._parsed.pop(obj["metadata"]["name"], None)

    def _slice_changed(self, event: str, obj: Mapping[str, Any]) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        if event == "DELETED":
            self._census.remove(name)
        elif spec.get("driver") == self._driver_name:
            self._census.put(name, self._census.kinds(spec))


class Asked:
    """A `reviewer.Cluster` for one review, whose questions to the API server share a second, however many they are."""

    def __init__(self, followed: LiveCluster, lookups: Client) -> None:
        self._followed = followed
        self._lookups = lookups
        self._end = time.monotonic() + _SECONDS

    def surroundings(self, classes: Iterable[str]) -> Surroundings:
        unknown: dict[str, DeviceClass] = {}
        for name in classes:
            if not self._followed.has_class(name):
                try:
                    found = self._get(DEVICE_CLASSES, name, None)
                except (ApiError, UnavailableError) as error:
                    if not unknown:
                        log.warning("class not looked up", device_class=name, err=str(error))
                    unknown[name] = DeviceClass(name, ())  # it may be there, and take any device
                else:
                    if found is not None:
                        self._followed.adopt_class(found)
        around = self._followed.surroundings()
        return replace(around, classes={**unknown, **around.classes}) if unknown else around

    def namespace(self, name: str) -> Object | None:
        return self._followed.namespace(name) or self._get(NAMESPACES, name, None)

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._get(_NAMED[kind], name, namespace)

    def names(self, kind: str, namespace: str) -> Iterable[str]:
        self._require_time()
        pages = self._lookups.pages(_NAMED[kind], namespace=namespace, limit=_MAX_NAMES)
        return [item["metadata"]["name"] for item in next(pages)["items"]]

    def _get(self, resource: Resource, name: str, namespace: str | None) -> Object | None:
        self._require_time()
        try:
            found = self._lookups.get(resource, name, namespace)
        except (NotFoundError, ValueError):  # ValueError: a name that no object can have
            return None
        return {"apiVersion": resource.api_version, "kind": resource.kind, **found}

    def _require_time(self) -> None:
        if time.monotonic() >= self._end:
            raise UnavailableError("there is no time left to ask the API server")


def _labelled(obj: Object) -> Object:
    """Of a namespace, what identifies it, and its labels."""
    kept = ("name", "uid", "resourceVersion", "labels")
    metadata = {key: obj["metadata"][key] for key in kept if key in obj["metadata"]}
    return {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": metadata}
