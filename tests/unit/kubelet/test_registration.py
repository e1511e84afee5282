import os
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from dra_driver.errors import UnavailableError, UsageError
from dra_driver.kubelet import sockets
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1_pb2_grpc
from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as pb
from dra_driver.kubelet.pb import pluginregistration_v1_pb2_grpc as pb_grpc
from dra_driver.kubelet.plugin import KubeletPlugin
from dra_driver.kubelet.probe import probe, registered_driver, serve_health
from dra_driver.prepare.claim import ClaimRef


def test_the_kubelet_is_told_what_it_needs_newest_version_first(
    plugin: KubeletPlugin, registration: grpc.Channel
) -> None:
    info = pb_grpc.RegistrationStub(registration).GetInfo(pb.InfoRequest(), timeout=60)

    assert ("DRAPlugin", "gpu.nvidia.com") == (info.type, info.name)
    assert str(plugin.endpoint) == info.endpoint
    assert ["v1.DRAPlugin", "v1beta1.DRAPlugin"] == list(info.supported_versions)


def test_what_the_kubelet_made_of_it_is_known_and_may_change(
    plugin: KubeletPlugin, registration: grpc.Channel
) -> None:
    stub = pb_grpc.RegistrationStub(registration)
    assert plugin.registration.registered is None

    stub.NotifyRegistrationStatus(pb.RegistrationStatus(plugin_registered=False, error="no such version"))
    refused = plugin.registration
    stub.NotifyRegistrationStatus(pb.RegistrationStatus(plugin_registered=True))

    assert (False, "no such version") == (refused.registered, refused.error)
    assert plugin.registration.registered is True


def test_an_emptied_registry_directory_is_filled_again(plugin: KubeletPlugin) -> None:
    plugin.registration_socket.unlink()

    plugin.tend()

    assert ("gpu.nvidia.com", str(plugin.endpoint)) == registered_driver(plugin.registration_socket)


def test_a_removed_and_re_created_registry_directory_is_filled_again(plugin: KubeletPlugin) -> None:
    directory = plugin.registration_socket.parent
    plugin.registration_socket.unlink()
    directory.rmdir()
    plugin.tend()
    directory.mkdir()

    plugin.tend()

    probe(plugin.registration_socket, plugin.endpoint)


def test_a_removed_plugin_socket_is_bound_anew(plugin: KubeletPlugin) -> None:
    plugin.endpoint.unlink()
    with pytest.raises(UnavailableError, match="nobody answers on the plugin socket"):
        probe(plugin.registration_socket, plugin.endpoint)

    plugin.tend()

    probe(plugin.registration_socket, plugin.endpoint)


def test_a_plugin_socket_that_another_has_replaced_is_bound_anew(plugin: KubeletPlugin) -> None:
    other = plugin.endpoint.with_suffix(".other")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(other))
        other.rename(plugin.endpoint)

        plugin.tend()

    probe(plugin.registration_socket, plugin.endpoint)


class Stuck(pb_grpc.RegistrationServicer, dra_v1_pb2_grpc.DRAPluginServicer):
    """Both services of a plugin whose threads all wait for something."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def GetInfo(self, request: Any, context: grpc.ServicerContext) -> pb.PluginInfo:
        self.over.wait(60)
        return pb.PluginInfo()

    def NodePrepareResources(
        self, request: Any, context: grpc.ServicerContext
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        self.over.wait(60)
        return dra_v1_pb2.NodePrepareResourcesResponse()


def test_a_plugin_that_is_stuck_is_not_waited_for(
    plugin: KubeletPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_driver.kubelet.probe._TIMEOUT_SECONDS", 2.0)
    path, stuck = tmp_path / "stuck.sock", Stuck()

    def add_services(server: grpc.Server) -> None:
        pb_grpc.add_RegistrationServicer_to_server(stuck, server)
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(stuck, server)

    server = sockets.serve(path, add_services)

    assert registered_driver(path) is None
    with pytest.raises(UnavailableError, match=f"nobody answers on the plugin socket {path}"):
        probe(plugin.registration_socket, path)

    stuck.over.set()
    server.stop(grace=60).wait()


def test_a_removed_plugin_directory_is_made_again_for_its_owner_only(plugin: KubeletPlugin) -> None:
    shutil.rmtree(plugin.endpoint.parent)

    plugin.tend()

    probe(plugin.registration_socket, plugin.endpoint)
    assert 0o700 == plugin.endpoint.parent.stat().st_mode & 0o777


def test_tending_changes_nothing_where_all_is_well(plugin: KubeletPlugin) -> None:
    before = plugin.registration_socket.stat().st_ino

    plugin.tend()

    assert before == plugin.registration_socket.stat().st_ino


def test_a_registry_that_does_not_exist_yet_is_waited_for(tmp_path: Path, claims: Any) -> None:
    (tmp_path / "p").mkdir()
    plugin = KubeletPlugin("gpu.nvidia.com", tmp_path / "p", tmp_path / "later", claims, claims.observe)
    plugin.start()
    (tmp_path / "later").mkdir()

    plugin.tend()

    assert registered_driver(plugin.registration_socket) is not None
    plugin.stop(grace=0)


def test_what_cannot_serve_claims_is_not_announced(tmp_path: Path, claims: Any) -> None:
    missing = tmp_path / "plugins" / "gpu.nvidia.com"
    plugin = KubeletPlugin("gpu.nvidia.com", missing, tmp_path, claims, claims.observe)

    with pytest.raises(UnavailableError, match=f"^{missing} does not exist; is it the kubelet's directory"):
        plugin.start()

    assert not plugin.registration_socket.exists()
    plugin.stop(grace=0)


def test_left_over_sockets_of_a_killed_plugin_are_no_obstacle(tmp_path: Path, claims: Any) -> None:
    for name in ("dra.sock", "gpu.nvidia.com-reg.sock"):
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(str(tmp_path / name))
    assert registered_driver(tmp_path / "gpu.nvidia.com-reg.sock") is None
    plugin = KubeletPlugin("gpu.nvidia.com", tmp_path, tmp_path, claims, claims.observe)

    plugin.start()

    probe(plugin.registration_socket, plugin.endpoint)
    plugin.stop(grace=0)


def test_a_path_that_the_kernel_cannot_bind_is_told_with_its_length(tmp_path: Path, claims: Any) -> None:
    long = tmp_path / ("x" * 100)

    with pytest.raises(UsageError, match=r"has \d+ bytes, the kernel allows 107"):
        KubeletPlugin("gpu.nvidia.com", long, tmp_path, claims, claims.observe)


def test_a_path_of_107_bytes_works(tmp_path: Path) -> None:
    path = tmp_path / ("x" * (sockets.MAX_PATH - len(str(tmp_path)) - 1))

    server = sockets.serve(path, lambda _: None)

    assert path.is_socket()
    server.stop(grace=None).wait()


def test_a_health_port_that_another_plugin_serves_is_refused(plugin: KubeletPlugin) -> None:
    server, port = serve_health(0, plugin.registration_socket, plugin.endpoint)

    with pytest.raises(UnavailableError, match=f"cannot listen on port {port} for health checks"):
        serve_health(port, plugin.registration_socket, plugin.endpoint)

    server.stop(grace=None).wait()


def test_what_cannot_be_bound_is_tried_again(plugin: KubeletPlugin) -> None:
    plugin.endpoint.unlink()
    plugin.endpoint.mkdir()
    plugin.tend()
    plugin.endpoint.rmdir()

    plugin.tend()

    probe(plugin.registration_socket, plugin.endpoint)


def test_sockets_are_for_their_owner_alone_and_other_files_for_whom_they_were(tmp_path: Path) -> None:
    before = os.umask(0o022)
    server = sockets.serve(tmp_path / "a.sock", lambda _: None)
    after = os.umask(before)

    assert (0o022, 0) == (after, (tmp_path / "a.sock").stat().st_mode & 0o077)
    server.stop(grace=None).wait()


def test_a_closed_plugin_stays_closed(tmp_path: Path, claims: Any) -> None:
    plugin = KubeletPlugin("gpu.nvidia.com", tmp_path, tmp_path, claims, claims.observe)
    plugin.start()
    plugin.stop(grace=0)

    plugin.tend()

    assert not plugin.endpoint.exists()


def test_the_announcement_goes_while_running_calls_finish(
    plugin: KubeletPlugin, channel: grpc.Channel, claims: Any
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def wait(_: ClaimRef) -> Any:
        asked.set()
        assert answer.wait(60)
        return ()

    claims.answers["a"] = wait
    request = dra_v1_pb2.NodePrepareResourcesRequest(
        claims=[{"namespace": "ns", "name": "a", "uid": "uid-a"}]
    )
    call = dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources.future(request, timeout=60)
    assert asked.wait(60)
    with ThreadPoolExecutor(1) as threads:
        stopped = threads.submit(plugin.stop, 60)
        try:
            deadline = time.monotonic() + 30
            while plugin.registration_socket.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert not stopped.done()
        finally:
            answer.set()
        stopped.result()

    assert ["uid-a"] == list(call.result().claims)


def test_calls_in_flight_survive_the_loss_of_the_socket_file(
    plugin: KubeletPlugin, channel: grpc.Channel
) -> None:
    stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
    stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest())

    plugin.endpoint.unlink()

    stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest())
