"""The publisher against a real HTTP API server: what kubelet, admins, other instances and outages do to it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dra_driver.config.node import GpuEntry, MigMode, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.model import CounterConsumption, CounterSet, Device, DeviceSet, Taint, Target
from dra_driver.embedded.apiserver import ApiServer, StatusError
from dra_driver.embedded.apiserver.faults import Fault, Kind
from dra_driver.errors import ApiError
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.kube.client import Client
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import NODES, RESOURCE_SLICES
from dra_driver.quantity import Quantity
from dra_driver.slices import publisher as publisher_module
from dra_driver.slices.diff import Pool
from dra_driver.slices.publisher import Publisher, SyncReport
from dra_driver.slices.writer import Writer

DRIVER, NODE, POOL = "gpu.nvidia.com", "node-a", "node-a/gpu"
TAINT = Taint("gpu.nvidia.com/health", "lost", "NoSchedule")
COUNTERS = CounterSet("gpu-0-counters", {"memory": Quantity.of_bytes(80 * 2**30)})

Slices = list[dict[str, Any]]
PATIENCE_SECONDS = 90.0


def gpu(n: int, **parts: Any) -> Device:
    return Device(
        name=f"gpu-{n}",
        target=Target("gpu", f"GPU-{n}", f"GPU-{n}", f"0000:{n:02x}:00.0"),
        attributes=parts.pop("attributes", {"uuid": f"GPU-{n}"}),
        capacity=parts.pop("capacity", {"memory": Quantity.of_bytes(80 * 2**30)}),
        **parts,
    )


def gpus(count: int, **parts: Any) -> DeviceSet:
    return DeviceSet(tuple(gpu(n, **parts) for n in range(count)))


def partition(n: int) -> Device:
    return Device(
        name=f"gpu-0-mig-{n}",
        target=Target("mig", f"MIG-{n}", "GPU-0", "0000:00:00.0"),
        consumes=(CounterConsumption("gpu-0-counters", {"memory": Quantity.of_bytes(10 * 2**30)}),),
    )


class Bench:
    """An API server with a Node, and publishers whose reports a test can wait for."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.reports: list[SyncReport] = []
        self.publisher: Publisher  # the one started last
        self.server: ApiServer
        self.client: Client
        self._directory = directory
        self._stack = stack
        self._outdated: set[int] = set()  # reports by id: of passes that did not know the last devices
        self._reported = threading.Condition()

    def serve(self, **options: Any) -> None:
        self.server = self._stack.enter_context(ApiServer(**options))
        self.server.store.create(NODES, {"metadata": {"name": NODE}})
        kubeconfig = self._directory / "kubeconfig"
        self.server.write_kubeconfig(kubeconfig)
        self.client = Client.connect(kubeconfig, timeout=PATIENCE_SECONDS)
        self._stack.callback(self.client.close)

    def start(self, devices: DeviceSet | None = None) -> Publisher:
        self.publisher = Publisher(
            self.client,
            driver_name=DRIVER,
            node_name=NODE,
            pool_name=POOL,
            on_sync=lambda report: self._on_sync(report, publisher),
        )
        publisher = self.publisher
        self._stack.callback(self.publisher.stop)
        self.publisher.start()
        if devices is not None:
            self.publish(devices)
        return self.publisher

    def publish(self, devices: DeviceSet) -> SyncReport:
        """Publish, and wait for a pass that succeeded with these devices: one with those before may be under way."""
        seen = len(self.reports)
        self.publisher.publish(devices)
        return self.wait_for(lambda report: report.ok and id(report) not in self._outdated, after=seen)

    def wait_for(self, matches: Callable[[SyncReport], bool], *, after: int = 0) -> SyncReport:
        def found() -> SyncReport | None:
            return next((report for report in self.reports[after:] if matches(report)), None)

        with self._reported:
            assert self._reported.wait_for(lambda: found() is not None, PATIENCE_SECONDS), self.reports
            report = found()
            assert report is not None
            return report

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what no report tells."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it has not come to that"
            time.sleep(0.02)

    def slices(self) -> Slices:
        return sorted(
            self.client.list(RESOURCE_SLICES)["items"], key=lambda item: str(item["metadata"]["name"])
        )

    def _on_sync(self, report: SyncReport, publisher: Publisher) -> None:
        with self._reported:
            self.reports.append(report)
            if publisher is not self.publisher or publisher._write_at <= time.monotonic():
                self._outdated.add(id(report))
            self._reported.notify_all()


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Bench]:
    """No server yet."""
    with ExitStack() as stack:
        yield Bench(tmp_path, stack)


@pytest.fixture
def bench(idle: Bench) -> Bench:
    """A server, and a publisher that runs."""
    idle.serve()
    idle.start()
    return idle


def versions(slices: Slices) -> list[tuple[str, str]]:
    """Names and resource versions: equal means that nothing was written."""
    return [(item["metadata"]["name"], item["metadata"]["resourceVersion"]) for item in slices]


def pool(item: dict[str, Any]) -> tuple[int, int]:
    return item["spec"]["pool"]["generation"], item["spec"]["pool"]["resourceSliceCount"]


def names(slices: Slices) -> list[str]:
    return [device["name"] for item in slices for device in item["spec"].get("devices", [])]


class TestPublishing:
    def test_devices_come_up_in_a_slice_that_the_node_owns(self, bench: Bench) -> None:
        report = bench.publish(gpus(8))
        (item,) = bench.slices()
        assert item["metadata"]["name"].startswith("00000-gpu.nvidia.com-node-a-")
        node = bench.client.get(NODES, NODE)
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Node", node["metadata"]["uid"], True)
        assert pool(item) == (1, 1)
        assert names([item]) == [f"gpu-{n}" for n in range(8)]
        assert (report.generation, report.slices, report.devices, report.writes) == (1, 1, 8, 1)
        assert bench.publisher.status() == report

    def test_a_node_without_devices_has_an_empty_pool(self, bench: Bench) -> None:
        bench.publish(DeviceSet())
        (item,) = bench.slices()
        assert pool(item) == (1, 1)
        assert not item["spec"].get("devices")

    def test_a_change_in_a_single_slice_keeps_name_and_generation(self, bench: Bench) -> None:
        bench.publish(gpus(2))
        (before,) = bench.slices()
        bench.publish(gpus(3))
        (after,) = bench.slices()
        assert after["metadata"]["name"] == before["metadata"]["name"]
        assert pool(after) == (1, 1)
        assert names([after]) == ["gpu-0", "gpu-1", "gpu-2"]

    def test_more_than_128_devices_take_more_slices_and_then_a_new_generation(self, bench: Bench) -> None:
        bench.publish(gpus(128))
        bench.publish(gpus(200))
        slices = bench.slices()
        assert [pool(item) for item in slices] == [(2, 2), (2, 2)]
        assert [len(item["spec"]["devices"]) for item in slices] == [128, 72]
        assert names(slices) == [f"gpu-{n}" for n in range(200)]

    def test_fewer_slices_are_left_when_devices_go(self, bench: Bench) -> None:
        bench.publish(gpus(200))
        bench.publish(gpus(10))
        (item,) = bench.slices()
        assert pool(item) == (1, 1)
        assert len(item["spec"]["devices"]) == 10

    def test_the_same_devices_again_write_nothing(self, bench: Bench) -> None:
        bench.publish(gpus(8))
        before = versions(bench.slices())
        bench.publisher.publish(gpus(8))
        bench.publish(gpus(8, taints=(TAINT,)))
        assert [report.writes for report in bench.reports if report.writes] == [1, 1]
        assert versions(bench.slices()) != before

    def test_quantities_in_the_servers_words_are_no_difference(self, bench: Bench) -> None:
        odd = gpus(1, capacity={"memory": Quantity.parse("0.5Gi"), "cores": Quantity.parse("1e3")})
        bench.publish(odd)
        (stored,) = bench.slices()
        again = bench.start(odd)
        assert versions(bench.slices()) == versions([stored])
        assert again.status().writes == 0

    def test_a_restart_writes_nothing(self, bench: Bench) -> None:
        bench.publish(gpus(200))
        before = versions(bench.slices())
        bench.publisher.stop()
        assert versions(bench.slices()) == before
        bench.start(gpus(200))
        assert versions(bench.slices()) == before

    def test_a_taint_keeps_the_time_it_was_added(self, bench: Bench) -> None:
        bench.publish(gpus(1, taints=(TAINT,)))
        (item,) = bench.slices()
        item["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-02T03:04:05Z"
        bench.client.replace(RESOURCE_SLICES, item)
        bench.publisher.stop()
        bench.start(gpus(2, taints=(TAINT,)))
        (item,) = bench.slices()
        first, second = (device["taints"][0]["timeAdded"] for device in item["spec"]["devices"])
        assert first == "2026-01-02T03:04:05Z"
        assert second != first

    def test_a_value_that_cannot_be_published_is_reported_and_the_rest_published(self, bench: Bench) -> None:
        bad = gpu(1, attributes={"uuid": "GPU-1", "long": "x" * 65})
        with capture_logs() as logs:
            report = bench.publish(DeviceSet((gpu(0), bad)))
        assert names(bench.slices()) == ["gpu-0", "gpu-1"]
        assert [(w.name, w.part) for w in report.withheld] == [("gpu-1", "attributes[long]")]
        assert "not published" in [entry["event"] for entry in logs]


class TestOthers:
    def test_what_kubelet_deletes_at_its_start_comes_back(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publisher_module, "_FOREIGN_CHANGE_SECONDS", 3600.0)  # it is not waited for
        bench.publish(gpus(200))
        before = bench.slices()
        seen = len(bench.reports)
        bench.client.delete_collection(RESOURCE_SLICES, field_selector=f"spec.nodeName={NODE}")
        bench.wait_for(lambda report: report.writes > 0, after=seen)
        after = bench.slices()
        assert names(after) == names(before)
        assert {item["metadata"]["uid"] for item in after}.isdisjoint(
            item["metadata"]["uid"] for item in before
        )

    def test_one_deleted_slice_of_several_comes_back_with_a_new_generation(self, bench: Bench) -> None:
        bench.publish(gpus(200))
        seen = len(bench.reports)
        bench.client.delete(RESOURCE_SLICES, bench.slices()[0]["metadata"]["name"])
        bench.wait_for(lambda report: report.writes > 0, after=seen)
        assert [pool(item) for item in bench.slices()] == [(2, 2), (2, 2)]

    def test_what_others_change_is_put_right_after_a_pause(
        self, idle: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publisher_module, "_FOREIGN_CHANGE_SECONDS", 3600.0)
        idle.serve()
        idle.start(gpus(2))
        (item,) = idle.slices()
        item["spec"]["devices"].pop()
        item = idle.client.replace(RESOURCE_SLICES, item)
        first = idle.wait_for(lambda report: True, after=1)
        assert first.writes == 0
        monkeypatch.setattr(publisher_module, "_FOREIGN_CHANGE_SECONDS", 0.0)  # the pause is over
        item["metadata"]["labels"] = {"another": "change"}
        idle.client.replace(RESOURCE_SLICES, item)
        idle.wait_for(lambda report: report.writes > 0, after=1)
        assert names(idle.slices()) == ["gpu-0", "gpu-1"]

    def test_two_instances_with_the_same_devices_end_with_one_set_of_slices(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publisher_module, "_FOREIGN_CHANGE_SECONDS", 2.0)
        bench.publish(gpus(200))
        bench.start(gpus(200))
        seen = len(bench.reports)
        bench.client.delete_collection(RESOURCE_SLICES, field_selector=f"spec.nodeName={NODE}")
        bench.wait_for(lambda report: report.writes > 0, after=seen)
        settled = threading.Event()
        for _ in range(300):
            before = versions(bench.slices())
            settled.wait(0.5)
            if len(before) == 2 and before == versions(bench.slices()):
                break
        assert names(bench.slices()) == [f"gpu-{n}" for n in range(200)]
        settled.wait(1.0)
        assert versions(bench.slices()) == before
        assert {pool(item)[1] for item in bench.slices()} == {2}

    def test_a_newer_instance_with_other_devices_is_not_overwritten_at_once(self, bench: Bench) -> None:
        bench.publish(gpus(2))
        older = bench.publisher
        seen = len(bench.reports)
        bench.start(gpus(3))
        bench.wait_for(lambda _: len(bench.reports) >= seen + 2)  # the older one looks as well, and leaves it
        assert names(bench.slices()) == ["gpu-0", "gpu-1", "gpu-2"]
        older.stop()

    def test_slices_of_other_drivers_and_nodes_are_not_touched(self, idle: Bench) -> None:
        idle.serve()
        others = [
            idle.client.create(RESOURCE_SLICES, other_slice(driver="other.example.com")),
            idle.client.create(RESOURCE_SLICES, other_slice(nodeName="node-b")),
        ]
        idle.start(gpus(1))
        ids = {item["metadata"]["uid"] for item in idle.slices()}
        assert ids > {item["metadata"]["uid"] for item in others}

    def test_former_pools_of_the_driver_on_the_node_are_removed(self, idle: Bench) -> None:
        idle.serve()
        former = idle.client.create(RESOURCE_SLICES, other_slice())
        idle.start(gpus(1))
        assert former["metadata"]["uid"] not in {item["metadata"]["uid"] for item in idle.slices()}
        assert [item["spec"]["pool"]["name"] for item in idle.slices()] == [POOL]

    def test_a_node_that_is_made_again_owns_the_slices_again(self, bench: Bench) -> None:
        bench.publish(gpus(1))
        bench.client.delete(NODES, NODE)
        bench.wait_for(lambda report: not report.ok)
        assert "Node" in str(bench.publisher.status().error)
        seen = len(bench.reports)
        node = bench.client.create(NODES, {"metadata": {"name": NODE}})
        bench.wait_for(lambda report: report.ok, after=seen)
        (item,) = bench.slices()
        assert [owner["uid"] for owner in item["metadata"]["ownerReferences"]] == [node["metadata"]["uid"]]


def other_slice(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": "00000-other-"},
        "spec": {
            "driver": DRIVER,
            "nodeName": NODE,
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
            **spec,
        },
    }


class TestDroppedFields:
    def test_they_are_named_once_with_the_gate_and_cause_no_loop(self, idle: Bench) -> None:
        idle.serve(disabled_features={"DRADeviceTaints"})
        with capture_logs() as logs:
            report = idle.start(gpus(2, taints=(TAINT,))).status()
            before = versions(idle.slices())
            seen = len(idle.reports)
            idle.client.delete(RESOURCE_SLICES, before[0][0])
            idle.wait_for(lambda report: report.writes == 1, after=seen)
            settled = versions(idle.slices())
            idle.publish(DeviceSet((*gpus(2, taints=(TAINT,)), gpu(2))))
        (dropped,) = report.dropped_fields
        assert (dropped.field, dropped.devices, dropped.gate) == (
            "taints",
            ("gpu-0", "gpu-1"),
            "DRADeviceTaints",
        )
        assert len(settled) == 1
        assert names(idle.slices()) == ["gpu-0", "gpu-1", "gpu-2"]
        assert [entry["event"] for entry in logs].count("field dropped") == 2  # once a content

    def test_without_counters_partitions_are_not_published(self, idle: Bench) -> None:
        idle.serve(disabled_features={"DRAPartitionableDevices"})
        whole = gpu(
            0, consumes=(CounterConsumption("gpu-0-counters", {"memory": Quantity.of_bytes(80 * 2**30)}),)
        )
        report = idle.start(DeviceSet((whole, partition(1)), (COUNTERS,))).status()
        assert names(idle.slices()) == ["gpu-0"]
        assert [w.name for w in report.withheld] == ["gpu-0-mig-1"]
        assert [field.gate for field in report.dropped_fields] == ["DRAPartitionableDevices"]

    def test_with_counters_partitions_are_published(self, bench: Bench) -> None:
        report = bench.publish(DeviceSet((partition(1), partition(2)), (COUNTERS,)))
        counters, devices = bench.slices()
        assert [entry["name"] for entry in counters["spec"]["sharedCounters"]] == ["gpu-0-counters"]
        assert names([devices]) == ["gpu-0-mig-1", "gpu-0-mig-2"]
        assert (report.withheld, report.dropped_fields) == ((), ())

    def test_a_cut_and_shared_node_comes_back_as_it_was_sent(self, bench: Bench) -> None:
        inventory = SimulatedBackend(load_profile("dgx-h100"), NODE).scan()
        node = NodeConfig(MigMode.DYNAMIC, (GpuEntry(shares=4),))
        report = bench.publish(build_devices(inventory, node=node))
        assert (report.withheld, report.dropped_fields) == ((), ())
        assert [len(part["spec"].get("devices", ())) for part in bench.slices()] == [0, 64, 64, 64, 16]

    def test_a_server_that_shares_nothing_gets_devices_for_one_claim_each(self, idle: Bench) -> None:
        idle.serve(disabled_features={"DRAConsumableCapacity"})
        inventory = SimulatedBackend(load_profile("l4"), NODE).scan()
        shared = build_devices(inventory, node=NodeConfig(entries=(GpuEntry(shares=4),)))
        report = idle.start(shared).status()
        fields = {(field.field, field.gate) for field in report.dropped_fields}
        assert fields == {
            (name, "DRAConsumableCapacity") for name in ("allowMultipleAllocations", "capacity")
        }
        assert names(idle.slices()) == [device.name for device in shared]

    def test_a_server_that_refuses_counters_of_their_own_gets_no_partitions(self, bench: Bench) -> None:
        bench.server.faults.add(refusal(422, "create", "spec.devices: Required value"))
        report = bench.publish(DeviceSet((gpu(0), partition(1)), (COUNTERS,)))
        assert names(bench.slices()) == ["gpu-0"]
        assert [w.name for w in report.withheld] == ["gpu-0-mig-1"]


def refusal(code: int, verb: str, text: str, field: str = "", *, times: int | None = 1) -> Fault:
    details = {"causes": [{"field": field, "message": text}]} if field else None
    reason = {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid"}[code]
    error = StatusError(code, reason, text, details)
    return Fault(Kind.REFUSE, verb, "resourceslices", times, refusal=error)


class TestRefusals:
    def test_a_device_that_the_server_names_is_withheld_until_it_changes(self, bench: Bench) -> None:
        bench.server.faults.add(refusal(422, "create", "too odd", "spec.devices[1].name"))
        report = bench.publish(gpus(3))
        assert names(bench.slices()) == ["gpu-0", "gpu-2"]
        assert [str(w) for w in report.withheld] == [
            "gpu-1: the API server refuses it: spec.devices[1].name: too odd"
        ]
        bench.publish(gpus(4))
        assert names(bench.slices()) == ["gpu-0", "gpu-2", "gpu-3"]
        bench.publish(gpus(4, taints=(TAINT,)))
        assert names(bench.slices()) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]

    @pytest.mark.parametrize("code", [400, 422])
    def test_a_refused_slice_is_not_sent_again_unchanged(self, bench: Bench, code: int) -> None:
        fault = bench.server.faults.add(refusal(code, "create", "spec.pool: no", times=None))
        bench.publisher.publish(gpus(1))
        report = bench.wait_for(lambda report: not report.ok)
        assert "until the devices change" in str(report.error)
        bench.server.faults.remove(fault)
        bench.client.create(RESOURCE_SLICES, other_slice())  # gives it a reason to look again
        seen = len(bench.reports)
        bench.wait_for(lambda report: True, after=seen)
        assert POOL not in {item["spec"]["pool"]["name"] for item in bench.slices()}
        bench.publish(gpus(2))
        assert names(bench.slices()) == ["gpu-0", "gpu-1"]

    def test_a_policys_verdict_is_asked_for_again(self, bench: Bench) -> None:
        text = "ValidatingAdmissionPolicy 'nodes' with binding 'nodes' denied request: no node name"
        bench.server.faults.add(refusal(422, "create", text))
        bench.publish(gpus(1))
        assert "ValidatingAdmissionPolicy" in str(bench.reports[0].error)
        assert names(bench.slices()) == ["gpu-0"]

    def test_a_conflict_is_read_again_and_overcome_at_once(self, bench: Bench) -> None:
        bench.publish(gpus(1))
        bench.server.faults.add(refusal(409, "update", "the object has been modified"))
        bench.publish(gpus(2))
        assert all(report.ok for report in bench.reports)
        assert names(bench.slices()) == ["gpu-0", "gpu-1"]

    def test_a_foreign_write_that_was_not_heard_of_yet_is_overcome(self, bench: Bench) -> None:
        bench.publish(gpus(1))
        bench.server.faults.delay(0.5, "watch", RESOURCE_SLICES)
        bench.server.faults.break_watches(RESOURCE_SLICES)
        (item,) = bench.slices()
        bench.client.patch(RESOURCE_SLICES, item["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}})
        bench.publish(gpus(2))
        (item,) = bench.slices()
        assert item["metadata"]["labels"] == {"a": "b"}
        assert names([item]) == ["gpu-0", "gpu-1"]

    @pytest.mark.parametrize("code", [429, 500, 503])
    def test_a_server_in_trouble_is_tried_again(self, bench: Bench, code: int) -> None:
        bench.server.faults.refuse(code, "create", RESOURCE_SLICES)
        bench.publish(gpus(1))
        assert [report.ok for report in bench.reports[:2]] == [False, True]
        assert f"({code})" in str(bench.reports[0].error)
        assert names(bench.slices()) == ["gpu-0"]

    def test_retry_after_is_waited_for(self, bench: Bench) -> None:
        bench.server.faults.refuse(429, "create", RESOURCE_SLICES, retry_after=3)
        with capture_logs() as logs:
            bench.publish(gpus(1))
        (entry,) = (entry for entry in logs if entry["event"] == "cannot publish slices")
        assert entry["retry_in"] >= 3

    def test_missing_rights_are_said_and_tried_again(self, bench: Bench) -> None:
        bench.server.faults.add(refusal(403, "create", "no rights"))
        bench.publish(gpus(1))
        assert bench.reports[0].error == (
            "cannot create ResourceSlice 00000-gpu.nvidia.com-node-a-*: no rights (403)"
        )

    def test_new_devices_do_not_wait_for_a_retry(self, bench: Bench) -> None:
        bench.server.faults.refuse(429, "create", RESOURCE_SLICES, retry_after=600)
        bench.publisher.publish(gpus(1))
        bench.wait_for(lambda report: not report.ok)
        bench.publish(gpus(2))
        assert names(bench.slices()) == ["gpu-0", "gpu-1"]


class TestOldNews:
    """A writer whose copy of the slices hears of nothing but its own writes."""

    @pytest.fixture
    def reflector(self, idle: Bench) -> Reflector:
        idle.serve()
        return Reflector(idle.client, RESOURCE_SLICES)

    @pytest.fixture
    def writer(self, idle: Bench, reflector: Reflector) -> Writer:
        return Writer(idle.client, reflector, Pool(DRIVER, NODE, POOL))

    def test_what_another_has_written_since_is_read_again(self, idle: Bench, writer: Writer) -> None:
        writer.sync(gpus(1))
        (item,) = idle.slices()
        idle.client.patch(RESOURCE_SLICES, item["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}})
        assert writer.sync(gpus(2)).writes == 1
        (item,) = idle.slices()
        assert item["metadata"]["labels"] == {"a": "b"}
        assert names([item]) == ["gpu-0", "gpu-1"]

    def test_what_another_has_deleted_since_is_made_anew(self, idle: Bench, writer: Writer) -> None:
        writer.sync(gpus(1))
        (item,) = idle.slices()
        idle.client.delete(RESOURCE_SLICES, item["metadata"]["name"])
        assert writer.sync(gpus(2)).writes == 1
        assert names(idle.slices()) == ["gpu-0", "gpu-1"]

    def test_what_looks_left_over_is_not_deleted_once_another_has_brought_it_up_to_date(
        self, idle: Bench, writer: Writer, reflector: Reflector
    ) -> None:
        writer.sync(gpus(129))
        answers = []
        for item in idle.slices():
            item["spec"]["pool"]["generation"] = 2
            answers.append(idle.client.replace(RESOURCE_SLICES, item))
        reflector.adopt(answers[0])
        before = versions(idle.slices())
        assert writer.sync(gpus(129)).writes == 0
        assert versions(idle.slices()) == before

    def test_what_another_has_deleted_as_well_is_deleted(self, idle: Bench, writer: Writer) -> None:
        writer.sync(gpus(129))
        for item in idle.slices():
            idle.client.delete(RESOURCE_SLICES, item["metadata"]["name"])
        writer.sync(gpus(1))
        assert names(idle.slices()) == ["gpu-0"]

    def test_what_is_of_another_driver_or_node_is_left_alone_whatever_the_server_lists(
        self, idle: Bench, writer: Writer, reflector: Reflector
    ) -> None:
        for fields in ({"driver": "other.example.com"}, {"nodeName": "node-b"}):
            reflector.adopt(idle.client.create(RESOURCE_SLICES, other_slice(**fields)))
        others = versions(idle.slices())
        assert writer.sync(gpus(1)).writes == 1
        assert set(others) < set(versions(idle.slices()))

    @pytest.mark.parametrize(("verb", "code"), [("update", 409), ("create", 404)])
    def test_a_server_that_keeps_to_its_refusal_ends_the_pass(
        self, idle: Bench, writer: Writer, verb: str, code: int
    ) -> None:
        writer.sync(gpus(1))
        idle.server.faults.add(refusal(code, verb, "always", times=None))
        with pytest.raises(ApiError, match=f"always \\({code}\\)"):
            writer.sync(gpus(129))

    def test_what_was_deleted_is_not_deleted_again(self, idle: Bench, writer: Writer) -> None:
        writer.sync(gpus(129))
        assert writer.sync(gpus(1)).writes == 2
        assert writer.sync(gpus(1)).writes == 0


class TestOutages:
    def test_devices_that_come_while_others_are_written_are_written_next(
        self, idle: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        apply = Writer._apply

        def publish_more(writer: Writer, *plan: Any) -> None:
            idle.publisher.publish(gpus(2))
            apply(writer, *plan)

        monkeypatch.setattr(Writer, "_apply", publish_more)
        idle.serve()
        idle.start()
        idle.publisher.publish(gpus(1))
        idle.until(lambda: names(idle.slices()) == ["gpu-0", "gpu-1"])

    def test_a_pass_that_fails_inside_is_made_again(
        self, idle: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        apply = Writer._apply

        def fail_once(writer: Writer, *plan: Any) -> None:
            monkeypatch.setattr(Writer, "_apply", apply)
            raise RuntimeError("of ours")

        monkeypatch.setattr(Writer, "_apply", fail_once)
        idle.serve()
        idle.start(gpus(1))
        assert idle.reports[0].error == "publishing slices failed inside: of ours"
        assert names(idle.slices()) == ["gpu-0"]

    def test_a_slice_that_goes_while_a_retry_is_under_way_comes_back(
        self, idle: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard = threading.Event()
        on_event, apply = Publisher._on_event, Writer._apply

        def hear(publisher: Publisher, kind: str, obj: dict[str, Any]) -> None:
            on_event(publisher, kind, obj)
            if kind == "DELETED":
                heard.set()

        def delete_first(writer: Writer, *plan: Any) -> None:
            """In the retry, and only once all was looked at."""
            if idle.reports and idle.reports[-1].error and not heard.is_set():
                idle.server.store.delete(RESOURCE_SLICES, idle.slices()[1]["metadata"]["name"])
                assert heard.wait(PATIENCE_SECONDS)
            apply(writer, *plan)

        monkeypatch.setattr(Publisher, "_on_event", hear)
        monkeypatch.setattr(Writer, "_apply", delete_first)
        idle.serve()
        idle.start(gpus(129))
        idle.server.faults.refuse(503, "update", RESOURCE_SLICES)
        changed = gpu(0, attributes={"uuid": "GPU-new"})
        idle.publish(DeviceSet((changed, *gpus(129).devices[1:])))

        idle.until(lambda: len(idle.slices()) == 2)

    def test_an_expired_watch_is_followed_by_a_list(self, bench: Bench) -> None:
        bench.publish(gpus(1))
        bench.server.faults.expire_watches(RESOURCE_SLICES)
        seen = len(bench.reports)
        bench.client.delete_collection(RESOURCE_SLICES)
        bench.wait_for(lambda report: report.writes > 0, after=seen)
        assert names(bench.slices()) == ["gpu-0"]

    def test_what_was_deleted_while_nobody_watched_comes_back(self, bench: Bench) -> None:
        bench.publish(gpus(1))
        fault = bench.server.faults.drop("watch", times=None)
        bench.server.faults.break_watches()
        bench.client.delete_collection(RESOURCE_SLICES)
        bench.server.faults.forget_history()
        seen = len(bench.reports)
        bench.server.faults.remove(fault)
        bench.wait_for(lambda report: report.writes > 0, after=seen)
        assert names(bench.slices()) == ["gpu-0"]

    def test_a_server_that_is_away_is_tried_again_with_growing_pauses(self, bench: Bench) -> None:
        bench.publish(DeviceSet())
        fault = bench.server.faults.unavailable()
        with capture_logs() as logs:
            bench.publisher.publish(gpus(1))
            bench.wait_for(lambda _: len(bench.reports) >= 3)
            bench.server.faults.remove(fault)
            bench.wait_for(lambda report: report.devices == 1)
        first, second, *_ = (e["retry_in"] for e in logs if e["event"] == "cannot publish slices")
        assert 1 <= first <= 1.5
        assert 2 <= second <= 3
        assert names(bench.slices()) == ["gpu-0"]

    def test_a_create_whose_answer_was_lost_leaves_one_slice(self, bench: Bench) -> None:
        bench.server.faults.drop("create", RESOURCE_SLICES, done=True)
        bench.publish(gpus(1))
        bench.until(
            lambda: len(bench.slices()) == 1
        )  # who had not heard of the first one when trying again made two
        (item,) = bench.slices()
        assert item["spec"]["pool"]["resourceSliceCount"] == 1
        assert names([item]) == ["gpu-0"]

    def test_a_server_that_is_not_there_at_the_start_is_waited_for(self, idle: Bench) -> None:
        idle.serve()
        fault = idle.server.faults.unavailable()
        publisher = idle.start()
        publisher.publish(gpus(1))
        idle.until(lambda: "no answer from http://127.0.0.1" in str(publisher.status().error))
        idle.server.faults.remove(fault)
        idle.wait_for(lambda report: report.ok)
        assert names(idle.slices()) == ["gpu-0"]


def test_stop_leaves_the_slices_and_ends_the_threads(bench: Bench) -> None:
    bench.publish(gpus(1))
    bench.publisher.stop()
    assert names(bench.slices()) == ["gpu-0"]
    assert not {"publish-slices", "reflect-resourceslices"} & {t.name for t in threading.enumerate()}


def test_a_handler_that_raises_does_not_end_the_publisher(idle: Bench) -> None:
    idle.serve()

    def broken(_report: SyncReport) -> None:
        raise RuntimeError

    with capture_logs():
        publisher = Publisher(idle.client, driver_name=DRIVER, node_name=NODE, pool_name=POOL, on_sync=broken)
        publisher.start()
        publisher.publish(gpus(1))
        for count in (1, 2):
            publisher.publish(gpus(count))
            idle.until(lambda count=count: len(names(idle.slices())) == count)  # type: ignore[misc]
        publisher.stop()
