"""Every method by its full path on the wire, as the kubelet's Go code calls it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1_pb2_grpc,
    health_v1alpha1_pb2,
    health_v1alpha1_pb2_grpc,
    pluginregistration_v1_pb2,
    podresources_v1_pb2,
    podresources_v1_pb2_grpc,
)


@pytest.mark.parametrize(
    ("path", "pb"),
    [
        ("k8s.io.kubelet.pkg.apis.dra.v1", dra_v1_pb2),
        ("k8s.io.kubelet.pkg.apis.dra.v1beta1", dra_v1beta1_pb2),
    ],
)
@pytest.mark.parametrize("method", ["NodePrepareResources", "NodeUnprepareResources"])
def test_claims_are_served_under_the_kubelets_service_names(
    channel: grpc.Channel, path: str, pb: Any, method: str
) -> None:
    request = getattr(pb, f"{method}Request")(claims=[{"namespace": "ns", "name": "c", "uid": "u"}])
    call: Any = channel.unary_unary(
        f"/{path}.DRAPlugin/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=getattr(pb, f"{method}Response").FromString,
    )

    response = call(request, timeout=60)

    assert ["u"] == list(response.claims)


@pytest.mark.parametrize(
    ("method", "request_", "response"),
    [
        ("GetInfo", pluginregistration_v1_pb2.InfoRequest(), pluginregistration_v1_pb2.PluginInfo),
        (
            "NotifyRegistrationStatus",
            pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True),
            pluginregistration_v1_pb2.RegistrationStatusResponse,
        ),
    ],
)
def test_registration_is_served_under_the_kubelets_service_name(
    registration: grpc.Channel, method: str, request_: Any, response: Any
) -> None:
    call: Any = registration.unary_unary(
        f"/pluginregistration.Registration/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=response.FromString,
    )

    assert isinstance(call(request_, timeout=60), response)


class _HealthV1(health_v1_pb2_grpc.DRAResourceHealthServicer):
    def NodeWatchResources(self, request: Any, context: Any) -> Iterator[Any]:
        yield health_v1_pb2.NodeWatchResourcesResponse(
            devices=[{"device": {"pool_name": "p", "device_name": "d"}, "health": "HEALTHY"}]
        )


class _HealthV1alpha1(health_v1alpha1_pb2_grpc.DRAResourceHealthServicer):
    def NodeWatchResources(self, request: Any, context: Any) -> Iterator[Any]:
        yield health_v1alpha1_pb2.NodeWatchResourcesResponse(
            devices=[{"device": {"pool_name": "p", "device_name": "d"}, "health": "HEALTHY"}]
        )


class _PodResources(podresources_v1_pb2_grpc.PodResourcesListerServicer):
    def List(self, request: Any, context: Any) -> Any:
        return podresources_v1_pb2.ListPodResourcesResponse()

    def Get(self, request: Any, context: Any) -> Any:
        return podresources_v1_pb2.GetPodResourcesResponse()

    def GetAllocatableResources(self, request: Any, context: Any) -> Any:
        return podresources_v1_pb2.AllocatableResourcesResponse()


@pytest.fixture
def others(tmp_path: Path) -> Iterator[grpc.Channel]:
    """The services that we only have contracts of so far, served by the generated code."""

    def add(server: grpc.Server) -> None:
        health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(_HealthV1(), server)
        health_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server(_HealthV1alpha1(), server)
        podresources_v1_pb2_grpc.add_PodResourcesListerServicer_to_server(_PodResources(), server)

    server = sockets.serve(tmp_path / "others.sock", add)
    with sockets.connect(tmp_path / "others.sock") as channel:
        yield channel
    server.stop(grace=None).wait()


@pytest.mark.parametrize(("version", "pb"), [("v1", health_v1_pb2), ("v1alpha1", health_v1alpha1_pb2)])
def test_health_has_its_short_name_on_the_wire(others: grpc.Channel, version: str, pb: Any) -> None:
    call: Any = others.unary_stream(
        f"/{version}.DRAResourceHealth/NodeWatchResources",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb.NodeWatchResourcesResponse.FromString,
    )

    (response,) = call(pb.NodeWatchResourcesRequest(), timeout=60)

    assert pb.HEALTHY == response.devices[0].health


@pytest.mark.parametrize(
    ("method", "messages"),
    [
        ("List", "ListPodResources"),
        ("Get", "GetPodResources"),
        ("GetAllocatableResources", "AllocatableResources"),
    ],
)
def test_pod_resources_have_their_short_name_on_the_wire(
    others: grpc.Channel, method: str, messages: str
) -> None:
    pb = podresources_v1_pb2
    call: Any = others.unary_unary(
        f"/v1.PodResourcesLister/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=getattr(pb, f"{messages}Response").FromString,
    )

    assert isinstance(
        call(getattr(pb, f"{messages}Request")(), timeout=60), getattr(pb, f"{messages}Response")
    )


def test_field_numbers_are_those_of_the_contract() -> None:
    """The bytes of one message with every field, written by hand from the contract."""
    device = dra_v1_pb2.Device(
        request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["i"], share_id="s"
    )

    assert b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x01i\x2a\x01s" == device.SerializeToString()
    claim = dra_v1_pb2.Claim(namespace="n", uid="u", name="c")
    assert b"\x0a\x01n\x12\x01u\x1a\x01c" == claim.SerializeToString()
    info = pluginregistration_v1_pb2.PluginInfo(type="t", name="n", endpoint="e", supported_versions=["v"])
    assert b"\x0a\x01t\x12\x01n\x1a\x01e\x22\x01v" == info.SerializeToString()
    resource = podresources_v1_pb2.DynamicResource(claim_name="c", claim_namespace="n")
    assert b"\x12\x01c\x1a\x01n" == resource.SerializeToString()


def test_calls_of_many_callers_are_served_at_once(channel: grpc.Channel, claims: Any) -> None:
    call: Any = channel.unary_unary(
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
        request_serializer=dra_v1_pb2.NodePrepareResourcesRequest.SerializeToString,
        response_deserializer=dra_v1_pb2.NodePrepareResourcesResponse.FromString,
    )

    def prepare(number: int) -> list[str]:
        claim = {"namespace": "ns", "name": f"c{number}", "uid": f"u{number}"}
        return list(call(dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim]), timeout=60).claims)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(prepare, range(64)))

    assert [[f"u{number}"] for number in range(64)] == answers
