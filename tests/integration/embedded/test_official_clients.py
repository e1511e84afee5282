"""The official Python client, dynamic and typed, finds its way around."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.resources import RESOURCE_SLICES

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Any]:
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    with client.ApiClient(configuration) as api:
        yield api


def test_the_dynamic_client_discovers_writes_and_watches(api: Any, claim: Make, tmp_path: Path) -> None:
    from kubernetes.dynamic import DynamicClient

    claims = DynamicClient(api, cache_file=str(tmp_path / "cache")).resources.get(
        api_version="resource.k8s.io/v1", kind="ResourceClaim"
    )
    made = claims.create(body=claim(), namespace="team")
    applied = claims.server_side_apply(
        body={**claim(), "metadata": {"name": "c", "labels": {"a": "b"}}},
        name="c",
        namespace="team",
        field_manager="me",
        force_conflicts=True,
    )
    events = claims.watch(namespace="team", resource_version=made.metadata.resourceVersion, timeout=1)

    assert [event["type"] for event in events] == ["MODIFIED"]
    assert applied.metadata.labels.a == "b"
    assert [item.metadata.name for item in claims.get(namespace="team").items] == ["c"]


def test_the_typed_client_reads_and_writes(api: Any, server: ApiServer, slice_of: Make) -> None:
    from kubernetes.client import ResourceV1Api

    resource_api = ResourceV1Api(api)
    resource_api.create_resource_slice(slice_of())
    [found] = resource_api.list_resource_slice(field_selector="spec.nodeName=node-a").items
    resource_api.delete_resource_slice("s")

    assert (found.metadata.name, found.spec.pool.name) == ("s", "node-a/gpu")
    assert server.store.list(RESOURCE_SLICES) == []
