"""What the plugin tells of itself: probes, metrics, gRPC health, logs."""

import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from dra_driver.kubelet import sockets

_REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def metrics(node: Any) -> dict[tuple[str, frozenset[str]], float]:
    """The value of each sample by name and label values; histograms by their count alone."""
    status, text = node.until(lambda: (got := node.get("/metrics"))[0] and got, "metrics")
    assert 200 == status, text
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum"))
    }


def test_the_metrics_are_those_of_the_reference(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    node.prepare("a", "not/a/uid")
    documented = set(re.findall(r"^\| `(dra_driver_\w+)`", _REFERENCE.read_text(), re.MULTILINE))

    shown = {name.removesuffix("_count") for name, _ in metrics(node)}

    assert shown <= documented
    assert documented - shown <= {"dra_driver_device_notes"}  # there are none


def test_the_metrics_tell_of_claims_and_devices(node: Any) -> None:
    before = metrics(node)
    node.run_pod("a", count=2)
    node.running("a")
    node.simulate("gpus: absent")
    node.published(2)
    node.prepare("a", "another-uid")
    now = metrics(node)
    node.delete_pod("a")
    after = metrics(node)

    def changed(operation: str, outcome: str) -> float:
        key = "dra_driver_claims_total", frozenset({operation, outcome})
        return after.get(key, 0) - before.get(key, 0)

    nothing: frozenset[str] = frozenset()
    assert [1, 1, 1] == [changed("prepare", "ok"), changed("prepare", "claim"), changed("unprepare", "ok")]
    assert 2 == now["dra_driver_devices", frozenset({"gpu", "true"})]
    assert [0, 1, 0] == [m["dra_driver_claims_held", nothing] for m in (before, now, after)]
    assert 2 == now["dra_driver_device_notes", frozenset({"held-lost"})]
    assert [1, 1, 1] == [
        now[f"dra_driver_{name}", nothing] for name in ("registered", "hardware_available", "slices_synced")
    ]


def test_health_over_grpc_is_that_of_the_sockets(node: Any) -> None:
    node.plugin.stop()
    node.spawn(*node.plugin.command, "--healthcheck-port=0")
    (port,) = node.until(
        lambda: re.findall(r'"serving gRPC health checks".* port=(\d+)', node.log()), "a port"
    )
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=(("grpc.enable_http_proxy", 0),)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def status(service: str) -> int:
            answer = stub.Check(
                health_pb2.HealthCheckRequest(service=service), timeout=node.seconds, wait_for_ready=True
            )
            return int(answer.status)

        serving, not_serving = (
            health_pb2.HealthCheckResponse.SERVING,
            health_pb2.HealthCheckResponse.NOT_SERVING,
        )
        node.until(lambda: [serving] * 2 == [status(""), status("liveness")], "a healthy plugin")
        with pytest.raises(grpc.RpcError, match="unknown service 'readiness'"):
            status("readiness")
        node.registry_dir.rename(node.registry_dir.with_name("away"))
        node.until(lambda: not_serving == status(""), "an unhealthy plugin")
        code, text = node.get("/healthz")
        assert (503, True) == (code, text.startswith("nobody answers on the registration socket "))
        node.registry_dir.with_name("away").rename(node.registry_dir)
        node.until(lambda: serving == status(""), "a healthy plugin")


def test_every_line_of_the_log_is_json_and_those_of_a_call_belong_together(node: Any) -> None:
    node.stopped()
    begin = len(node.log())
    node.spawn(*node.plugin.command, "--log-format=json", "--log-level=debug")
    node.registered()
    node.run_pod("a")
    node.running("a")
    uid = node.claim("a")["metadata"]["uid"]
    node.prepare("a", "another-uid")
    with sockets.connect(node.plugin_dir / "dra.sock") as channel:
        prepare: Any = channel.unary_unary("/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources")
        with pytest.raises(grpc.RpcError):
            prepare(b"\xff", timeout=node.seconds)  # no message at all
    node.delete_pod("a")
    node.stop_processes()

    lines = [json.loads(line) for line in node.log()[begin:].splitlines()]

    assert {"node-a"} == {line["node"] for line in lines}
    assert [] == [line for line in lines if not {"timestamp", "level", "event"} <= line.keys()]
    of_calls = [line for line in lines if "op_id" in line]
    calls = {(line["op_id"], line["op"], line["claim"], line["claim_uid"]) for line in of_calls}
    assert {
        ("prepare", "default/a", uid),
        ("prepare", "default/a", "another-uid"),
        ("unprepare", "default/a", uid),
    } == {call[1:] for call in calls}
    assert len(calls) == len({call[0] for call in calls})
    assert ["claim failed"] == [line["event"] for line in of_calls if line["claim_uid"] == "another-uid"]
    assert [["grpc._common", "error"]] == [
        [line["logger"], line["level"]] for line in lines if line["event"] == "message of a library"
    ]
