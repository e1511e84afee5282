"""The pod-resources service (v1): which devices the containers of the running Pods have.

As in kubelet 1.36, a container is listed with all devices of the claims it uses, even if it uses one request of
them, and the CDI devices of an entry are those of all entries of the same driver before it, too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import grpc

from dra_driver.embedded.kubelet.claims import ClaimInfo
from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.embedded.kubelet.manager import ClaimManager
from dra_driver.kubelet.pb import podresources_v1_pb2 as pb
from dra_driver.kubelet.pb import podresources_v1_pb2_grpc as pb_grpc


class PodResources(pb_grpc.PodResourcesListerServicer):
    """Serves what `pods` (the active ones) and `claims` know."""

    def __init__(self, pods: Callable[[], Iterable[dict[str, Any]]], claims: ClaimManager) -> None:
        self._pods = pods
        self._claims = claims

    def List(  # noqa: N802 - the protocol's name
        self,
        request: pb.ListPodResourcesRequest,  # noqa: ARG002 - the protocol's shape
        context: grpc.ServicerContext,  # noqa: ARG002 - the protocol's shape
    ) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=[self._resources(pod) for pod in self._pods()])

    def Get(  # noqa: N802 - the protocol's name
        self, request: pb.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> pb.GetPodResourcesResponse:
        for pod in self._pods():
            if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (
                request.pod_namespace,
                request.pod_name,
            ):
                return pb.GetPodResourcesResponse(pod_resources=self._resources(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError  # abort has raised

    def GetAllocatableResources(  # noqa: N802 - the protocol's name
        self,
        request: pb.AllocatableResourcesRequest,  # noqa: ARG002 - the protocol's shape
        context: grpc.ServicerContext,  # noqa: ARG002 - the protocol's shape
    ) -> pb.AllocatableResourcesResponse:
        return pb.AllocatableResourcesResponse()  # says nothing of DRA in the real one either

    def _resources(self, pod: dict[str, Any]) -> pb.PodResources:
        containers = []
        for container in pod["spec"]["containers"]:
            try:
                infos = self._claims.container_claims(pod, container)
            except KubeletError:  # not prepared yet
                infos = []
            resources = [_resource(info) for info in infos]
            containers.append(pb.ContainerResources(name=container["name"], dynamic_resources=resources))
        metadata = pod["metadata"]
        return pb.PodResources(name=metadata["name"], namespace=metadata["namespace"], containers=containers)


def _resource(info: ClaimInfo) -> pb.DynamicResource:
    resources = []
    for driver, devices in info.drivers.items():
        names: list[str] = []
        for device in devices:
            names += device.cdi_ids
            resources.append(
                pb.ClaimResource(
                    cdi_devices=[pb.CDIDevice(name=name) for name in names],
                    driver_name=driver,
                    pool_name=device.pool,
                    device_name=device.device,
                    share_id=device.share_id,
                )
            )
    return pb.DynamicResource(claim_name=info.name, claim_namespace=info.namespace, claim_resources=resources)
