"""The API server's objects for its own process: the plainest verbs of `kube.Client` without a network.

Objects that go in and come out are the caller's own. Refusals are StatusError.
"""

from typing import Any

from dra_driver.embedded.apiserver.deletion import Deletion, current
from dra_driver.embedded.apiserver.kinds import Kind, find
from dra_driver.embedded.apiserver.options import DeleteOptions, WriteOptions
from dra_driver.embedded.apiserver.paths import Target
from dra_driver.embedded.apiserver.registry import MERGE_PATCH, Registry
from dra_driver.embedded.apiserver.storage import Storage
from dra_driver.kube.resources import Resource

Object = dict[str, Any]
Objects = list[Object]


class Store:
    """Objects by resource; thread-safe."""

    def __init__(self, storage: Storage, registry: Registry, deletion: Deletion) -> None:
        self._storage = storage
        self._registry = registry
        self._deletion = deletion

    @property
    def revision(self) -> int:
        """The resourceVersion of the last write."""
        return self._storage.revision

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        return current(self._storage, _kind(resource), (namespace or "", name)).copy(resource.version)

    def list(self, resource: Resource) -> Objects:
        """All objects of a kind, by namespace and name."""
        found, _ = self._storage.items(_kind(resource))
        return [stored.copy(resource.version) for stored in found]

    def create(self, resource: Resource, body: Object) -> Object:
        target = Target(_kind(resource), resource.version, (body.get("metadata") or {}).get("namespace"))
        return self._registry.create(target, body, WriteOptions()).copy(resource.version)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Object,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """A merge patch."""
        target = Target(_kind(resource), resource.version, namespace, name, subresource)
        stored, _ = self._registry.patch(target, body, MERGE_PATCH, WriteOptions())
        return stored.copy(resource.version)

    def delete(self, resource: Resource, name: str, *, namespace: str | None = None) -> None:
        self._deletion.delete(_kind(resource), (namespace or "", name), DeleteOptions())


def _kind(resource: Resource) -> Kind:
    kind = find(resource.group, resource.version, resource.plural)
    if kind is None:
        raise LookupError(f"{resource.plural} of {resource.api_version} are not served")
    return kind
