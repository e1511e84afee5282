"""Objects of a cluster, listed at once: an answer is wanted within a second of the command."""

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dra_driver.errors import UsageError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

Object = dict[str, Any]

SHARED = (RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS, NODES)  # what every question needs
OF_NAMESPACE = (PODS, RESOURCE_CLAIM_TEMPLATES)
_MAX_SINGLE = 16  # Pods of other namespaces that are fetched one by one


@contextmanager
def connection(kubeconfig: Path | None, *, instead: str) -> Iterator[Client]:
    """A client for --kubeconfig, $KUBECONFIG, ~/.kube/config, or the cluster this runs in, in that order.

    UsageError where there is nothing to connect to, with what to do `instead`.
    """
    client = Client.connect(kubeconfig or _usual(instead))
    try:
        yield client
    finally:
        client.close()


def _usual(instead: str) -> Path | None:
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        return next((path for path in named if path.exists()), named[0])
    home = Path.home() / ".kube" / "config"
    if home.exists():
        return home
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    raise UsageError(f"there is no cluster to ask: give --kubeconfig or set KUBECONFIG, or {instead}")


def listed(client: Client, wanted: Mapping[Resource, str | None]) -> dict[Resource, list[Object]]:
    """The objects of several kinds, in a namespace or (None) in all; asked for side by side."""
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        lists = {
            resource: pool.submit(client.list, resource, namespace=namespace)
            for resource, namespace in wanted.items()
        }
        return {resource: found.result()["items"] for resource, found in lists.items()}


def events_about(client: Client, kind: str, name: str, namespace: str) -> list[Object]:
    """The Events about one object."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    found: list[Object] = client.list(EVENTS, namespace=namespace, field_selector=selector)["items"]
    return found


def pods_named(client: Client, names: Iterable[str]) -> list[Object]:
    """Pods by namespace/name, those that exist and the first few of them."""
    wanted = list(names)[:_MAX_SINGLE]
    if not wanted:
        return []

    def get(name: str) -> Object | None:
        namespace, _, short = name.partition("/")
        try:
            return client.get(PODS, short, namespace)
        except NotFoundError:
            return None

    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        return [pod for pod in pool.map(get, wanted) if pod is not None]
