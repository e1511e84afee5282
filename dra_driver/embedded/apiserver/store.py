"""The API server's objects for its own process: the verbs of `kube.Client` without a network.

Objects that go in and come out are the caller's own. Refusals are StatusError.
"""

from typing import Any

from dra_driver.embedded.apiserver import selectors
from dra_driver.embedded.apiserver.deletion import Deletion, current
from dra_driver.embedded.apiserver.kinds import Kind, find
from dra_driver.embedded.apiserver.options import DeleteOptions, WriteOptions
from dra_driver.embedded.apiserver.registry import MERGE_PATCH, Registry
from dra_driver.embedded.apiserver.storage import Storage
from dra_driver.kube.resources import Resource

Object = dict[str, Any]


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

    def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
    ) -> Object:
        """The whole list object."""
        kind = _kind(resource)
        selector = selectors.parse(kind, resource.version, label_selector, field_selector)
        found, revision = self._storage.items(kind, namespace)
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "items": [item.copy(resource.version) for item in found if selector.matches(item.obj)],
        }

    def create(self, resource: Resource, body: Object, *, namespace: str | None = None) -> Object:
        place = namespace or (body.get("metadata") or {}).get("namespace") or ""
        stored = self._registry.create(_kind(resource), resource.version, place, body, WriteOptions())
        return stored.copy(resource.version)

    def replace(self, resource: Resource, body: Object, *, subresource: str | None = None) -> Object:
        metadata = body["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        options = WriteOptions()
        stored = self._registry.update(_kind(resource), resource.version, key, body, subresource, options)
        return stored.copy(resource.version)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        content_type: str = MERGE_PATCH,
        field_manager: str = "embedded",
        force: bool = False,
    ) -> Object:
        options = WriteOptions(manager=field_manager, force=force)
        key = namespace or "", name
        kind = _kind(resource)
        stored, _ = self._registry.patch(
            kind, resource.version, key, body, content_type, subresource, options
        )
        return stored.copy(resource.version)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        options = DeleteOptions(grace_period_seconds, uid, resource_version)
        self._deletion.delete(_kind(resource), (namespace or "", name), options)

    def bind(self, name: str, node: str, *, namespace: str) -> None:
        """Assign a Pod to a node."""
        self._registry.bind((namespace, name), {"target": {"kind": "Node", "name": node}}, WriteOptions())


def _kind(resource: Resource) -> Kind:
    kind = find(resource.group, resource.version, resource.plural)
    if kind is None:
        raise LookupError(f"{resource.plural} of {resource.api_version} are not served")
    return kind
