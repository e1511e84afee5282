"""What the kubelet asks of drivers for a Pod's claims, and what it says when that fails."""

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.kubelet.claims import ClaimCache
from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.embedded.kubelet.manager import ClaimManager
from dra_driver.embedded.kubelet.plugins import PluginStore
from dra_driver.errors import RecordError, UnavailableError
from dra_driver.prepare.claim import ClaimRef
from tests.unit.embedded.kubelet.scripted_plugin import ScriptedPlugin

A, B = "a.example.com", "b.example.com"


class NoWiper:
    def usable(self, driver: str) -> None: ...

    def unusable(self, driver: str) -> None: ...


class Bed:
    """A claim manager on scripted drivers, without Pods' lives and without an API server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.plugins: dict[str, ScriptedPlugin] = {}
        self.store = PluginStore(NoWiper(), supported=["v1.DRAPlugin", "v1beta1.DRAPlugin"], timeout=90.0)
        self.restart()

    def restart(self) -> None:
        """A new kubelet on the old checkpoint."""
        self.manager = ClaimManager(ClaimCache(self.root / "dra_manager_state"), self.store, self.get_claim)

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        try:
            return self.objects[namespace, name]
        except KeyError:
            raise UnavailableError(f"{name} is not to be had") from None

    def plugin(self, name: str = A, service: str = "v1.DRAPlugin", **script: Any) -> ScriptedPlugin:
        (self.root / "registry").mkdir(exist_ok=True)
        plugin = ScriptedPlugin(name, self.root / "registry", self.root / name, **script).start()
        self.plugins[name] = plugin
        self.store.register(name, str(plugin.endpoint), [service])
        return plugin

    def claim(
        self, name: str, *drivers: str, pods: tuple[str, ...] = ("pod",), uid: str = "", **metadata: Any
    ) -> None:
        results = [{"request": "gpu", "driver": d, "pool": "p", "device": "d"} for d in drivers or (A,)]
        self.objects["ns", name] = {
            "metadata": {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", **metadata},
            "status": {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
            },
        }

    def asked(self, method: str, driver: str = A) -> list[list[str]]:
        calls = self.plugins[driver].calls
        return [[ref.name for ref in call.claims] for call in calls if call.method == method]


def pod(*claims: str, name: str = "pod", **status: Any) -> dict[str, Any]:
    """A Pod with claims r0, r1, ... that its container uses."""
    refs = [{"name": f"r{i}", "resourceClaimName": claim} for i, claim in enumerate(claims)]
    container = {"name": "main", "resources": {"claims": [{"name": ref["name"]} for ref in refs]}}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "spec": {"containers": [container], "resourceClaims": refs},
        "status": status,
    }


def entry(*ids: str, requests: tuple[str, ...] = (), device: str = "d") -> dict[str, Any]:
    """The answer of one claim: a device with these CDI ids."""
    fields = {"pool_name": "p", "device_name": device, "cdi_device_ids": ids, "request_names": requests}
    return {"devices": [fields]}


@pytest.fixture
def bed(root: Path) -> Iterator[Bed]:
    bed = Bed(root)
    yield bed
    bed.store.close()
    for plugin in bed.plugins.values():
        plugin.stop()


def refused(call: Callable[[], None]) -> str:
    with pytest.raises(KubeletError) as raised:
        call()
    return str(raised.value)


def test_all_claims_of_a_pod_go_to_their_driver_in_one_call_with_its_deadline(bed: Bed) -> None:
    plugin = bed.plugin()
    bed.claim("one")
    bed.claim("two")

    bed.manager.prepare(pod("one", "two"))

    (call,) = plugin.calls
    assert (ClaimRef("ns", "one", "uid-one"), ClaimRef("ns", "two", "uid-two")) == call.claims
    assert ("Prepare", True) == (call.method, 30 < call.deadline < 91)


def test_a_claim_of_two_drivers_goes_to_both(bed: Bed) -> None:
    bed.plugin(A, prepare=lambda refs: {ref.uid: entry("a.com/x=1") for ref in refs})
    bed.plugin(B, prepare=lambda refs: {ref.uid: entry("b.com/x=1") for ref in refs})
    bed.claim("both", A, B, A)
    user = pod("both")

    bed.manager.prepare(user)

    assert ([["both"]], [["both"]]) == (bed.asked("Prepare", A), bed.asked("Prepare", B))
    assert ["a.com/x=1", "b.com/x=1"] == bed.manager.cdi_ids(user, user["spec"]["containers"][0])


def test_what_is_prepared_is_not_asked_for_again(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")
    bed.claim("two")
    bed.manager.prepare(pod("one"))

    bed.manager.prepare(pod("one", "two"))

    assert [["one"], ["two"]] == bed.asked("Prepare")


def test_a_claim_that_a_pod_names_twice_is_asked_for_once(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")

    bed.manager.prepare(pod("one", "one"))

    assert [["one"]] == bed.asked("Prepare")


def test_a_v1beta1_driver_is_spoken_to_in_its_protocol(bed: Bed) -> None:
    plugin = bed.plugin(service="v1beta1.DRAPlugin")
    bed.claim("one")
    user = pod("one")

    bed.manager.prepare(user)

    assert ["v1beta1.DRAPlugin"] == [call.service for call in plugin.calls]
    assert ["example.com/claim=uid-one-dev-0"] == bed.manager.cdi_ids(user, user["spec"]["containers"][0])


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (lambda _refs: {}, "NodePrepareResources skipped 1 ResourceClaims"),
        (
            lambda _refs: {"other": {}},
            "NodePrepareResources returned result for unknown claim UID other",
        ),
        (
            lambda refs: {refs[0].uid: {"error": "GPU on fire"}},
            "NodePrepareResources failed for ResourceClaim one: GPU on fire",
        ),
    ],
    ids=["missing", "unknown", "error"],
)
def test_a_wrong_answer_fails_the_pod_and_the_driver_is_asked_again_later(
    bed: Bed, script: Any, text: str
) -> None:
    plugin = bed.plugin(prepare=script)
    bed.claim("one")

    assert f"prepare dynamic resources: {text}" == refused(lambda: bed.manager.prepare(pod("one")))

    plugin.prepare = None
    bed.manager.prepare(pod("one"))
    assert [["one"], ["one"]] == bed.asked("Prepare")


def test_one_claims_error_fails_the_whole_pod(bed: Bed) -> None:
    bed.plugin(prepare=lambda refs: {ref.uid: {"error": "no"} if ref.name == "two" else {} for ref in refs})
    bed.claim("one")
    bed.claim("two")

    text = refused(lambda: bed.manager.prepare(pod("one", "two")))

    assert "prepare dynamic resources: NodePrepareResources failed for ResourceClaim two: no" == text
    bed.plugins[A].prepare = None
    bed.manager.prepare(pod("one", "two"))
    assert [["one", "two"], ["one", "two"]] == bed.asked("Prepare")


def test_a_call_that_fails_as_a_whole_is_shown_as_grpc_go_prints_it(bed: Bed) -> None:
    def fail(_refs: list[ClaimRef]) -> dict[str, Any]:
        raise RuntimeError("out of luck")

    bed.plugin(prepare=fail)
    bed.claim("one")

    text = "prepare dynamic resources: NodePrepareResources: rpc error: code = Internal desc = out of luck"
    assert text == refused(lambda: bed.manager.prepare(pod("one")))


def test_a_driver_that_does_not_answer_in_time_fails_the_pod(root: Path) -> None:
    bed = Bed(root)
    bed.store = PluginStore(NoWiper(), supported=["v1.DRAPlugin"], timeout=0.1)
    bed.restart()
    stuck = threading.Event()

    def wait(_refs: list[ClaimRef]) -> dict[str, Any]:
        stuck.wait()
        return {}

    plugin = bed.plugin(prepare=wait)
    bed.claim("one")

    text = refused(lambda: bed.manager.prepare(pod("one")))
    stuck.set()
    bed.store.close()
    plugin.stop()

    rpc = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert f"prepare dynamic resources: NodePrepareResources: {rpc}" == text


@pytest.mark.parametrize(
    ("socket", "reason"), [(True, "connection refused"), (False, "no such file or directory")]
)
def test_a_driver_that_went_without_a_word_is_shown_as_grpc_go_prints_it(
    bed: Bed, root: Path, socket: bool, reason: str
) -> None:
    path = root / "gone.sock"
    if socket:
        path.touch()
    bed.store.register(A, str(path), ["v1.DRAPlugin"])
    bed.claim("one")

    text = refused(lambda: bed.manager.prepare(pod("one")))

    wanted = f'connection error: desc = "transport: Error while dialing: dial unix {path}: connect: {reason}"'
    assert (
        f"prepare dynamic resources: NodePrepareResources: rpc error: code = Unavailable desc = {wanted}"
        == text
    )


def owner(uid: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": uid, "controller": True}


def _unallocated(bed: Bed) -> None:
    bed.claim("one")
    bed.objects["ns", "one"]["status"].pop("allocation")


def _foreign(bed: Bed) -> None:
    bed.claim("made", ownerReferences=[owner("uid-older")])


FROM_TEMPLATE = {"name": "r0", "resourceClaimTemplateName": "template"}


@pytest.mark.parametrize(
    ("arrange", "claim", "status", "text"),
    [
        (lambda _bed: None, {}, {}, "fetch ResourceClaim one: one is not to be had"),
        (_unallocated, {}, {}, "ResourceClaim one: not allocated"),
        (lambda bed: bed.claim("one", B), {}, {}, f"DRA driver {B} is not registered"),
        (
            lambda bed: bed.claim("one", pods=("other",)),
            {},
            {},
            "pod pod (uid-pod) is not allowed to use ResourceClaim one (uid-one)",
        ),
        (lambda _bed: None, FROM_TEMPLATE, {}, 'pod "ns/pod": ResourceClaim not created yet'),
        (
            _foreign,
            FROM_TEMPLATE,
            {"resourceClaimStatuses": [{"name": "r0", "resourceClaimName": "made"}]},
            "ResourceClaim ns/made was not created for Pod ns/pod (Pod is not owner)",
        ),
        (
            lambda _bed: None,
            {"name": "r0"},
            {},
            'pod "ns/pod", spec.resourceClaim "r0": none of the supported fields are set',
        ),
    ],
    ids=["missing", "unallocated", "driver", "reserved", "template", "owner", "neither"],
)
def test_a_claim_that_the_pod_cannot_use_is_refused_before_any_driver_is_called(
    bed: Bed, arrange: Any, claim: dict[str, Any], status: dict[str, Any], text: str
) -> None:
    bed.plugin()
    bed.claim("fine")
    arrange(bed)
    user = pod("one", "fine", **status)
    if claim:
        user["spec"]["resourceClaims"][0] = claim

    assert f"prepare dynamic resources: {text}" == refused(lambda: bed.manager.prepare(user))

    assert ([], set()) == (bed.plugins[A].calls, bed.manager.pods())


def test_a_claim_that_its_template_made_for_this_pod_is_prepared(bed: Bed) -> None:
    bed.plugin()
    bed.claim("made", ownerReferences=[owner("uid-pod")])
    user = pod(resourceClaimStatuses=[{"name": "r0", "resourceClaimName": "made"}])
    user["spec"]["resourceClaims"] = [FROM_TEMPLATE]

    bed.manager.prepare(user)

    assert [["made"]] == bed.asked("Prepare")


def test_a_pod_claim_for_which_no_object_is_needed_is_passed_over(bed: Bed) -> None:
    user = pod(resourceClaimStatuses=[{"name": "r0"}])
    user["spec"]["resourceClaims"] = [FROM_TEMPLATE]
    user["spec"]["containers"][0]["resources"]["claims"] = [{"name": "r0"}]

    bed.manager.prepare(user)

    assert [] == bed.manager.cdi_ids(user, user["spec"]["containers"][0])


def test_a_new_claim_of_the_name_of_one_that_was_never_unprepared_waits(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")
    bed.manager.prepare(pod("one"))
    bed.claim("one", uid="uid-new", pods=("second",))

    text = refused(lambda: bed.manager.prepare(pod("one", name="second")))

    assert (
        "prepare dynamic resources: old ResourceClaim with same name one and different UID uid-one still exists "
        "(previous pod force-deleted?!)"
    ) == text


def test_a_container_gets_the_devices_of_the_requests_it_names(bed: Bed) -> None:
    answer = {
        "devices": [
            *entry("v/c=x", "v/c=common", requests=("x",))["devices"],
            *entry("v/c=y", requests=("y", "z"))["devices"],
            *entry("v/c=all")["devices"],
        ]
    }
    bed.plugin(prepare=lambda refs: {refs[0].uid: answer})
    bed.claim("one")
    user = pod("one")
    bed.manager.prepare(user)

    def ids(*requests: str | None) -> list[str]:
        uses = [{"name": "r0", "request": r} if r else {"name": "r0"} for r in requests]
        return bed.manager.cdi_ids(user, {"name": "main", "resources": {"claims": uses}})

    assert ["v/c=x", "v/c=common", "v/c=y", "v/c=all"] == ids(None)
    assert ["v/c=x", "v/c=common", "v/c=all"] == ids("x")
    assert ["v/c=y", "v/c=all"] == ids("z")
    assert ["v/c=all"] == ids("none")
    assert [] == ids()


def test_a_container_gets_the_devices_of_the_extended_resources_it_asks_for(bed: Bed) -> None:
    devices = [
        *entry("v/c=0", requests=("container-0-request-0",))["devices"],
        *entry("v/c=1", requests=("container-1-request-0",))["devices"],
    ]
    bed.plugin(prepare=lambda refs: {refs[0].uid: {"devices": devices}})
    bed.claim("extended")
    mappings = [
        {"containerName": name, "resourceName": "nvidia.com/gpu", "requestName": f"container-{i}-request-0"}
        for i, name in enumerate(("first", "second"))
    ]
    user = pod(extendedResourceClaimStatus={"resourceClaimName": "extended", "requestMappings": mappings})
    bed.manager.prepare(user)

    def ids(name: str, **resources: Any) -> list[str]:
        return bed.manager.cdi_ids(user, {"name": name, "resources": resources})

    assert ["v/c=0"] == ids("first", limits={"nvidia.com/gpu": "1"})
    assert ["v/c=1"] == ids("second", requests={"nvidia.com/gpu": "1"})
    assert [] == ids("second", requests={"nvidia.com/gpu": "0"})
    assert [] == ids("third", requests={"nvidia.com/gpu": "1"})


def test_a_shared_claim_is_unprepared_with_its_last_pod(bed: Bed) -> None:
    bed.plugin()
    bed.claim("shared", pods=("one", "two"))
    for name in ("one", "two"):
        bed.manager.prepare(pod("shared", name=name))

    bed.manager.unprepare("uid-one")
    after_one = bed.asked("Unprepare")
    bed.manager.unprepare("uid-two")

    assert ([], [["shared"]]) == (after_one, bed.asked("Unprepare"))
    assert [["shared"]] == bed.asked("Prepare")


def test_a_pod_that_never_used_a_claim_does_not_unprepare_it_for_the_one_that_does(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")
    bed.manager.prepare(pod("one"))

    bed.manager.unprepare("uid-stranger")

    assert ([], {"uid-pod"}) == (bed.asked("Unprepare"), bed.manager.pods())


def test_unpreparing_needs_no_claim_object(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")
    bed.manager.prepare(pod("one"))
    bed.objects.clear()

    bed.manager.unprepare("uid-pod")

    assert ([["one"]], set()) == (bed.asked("Unprepare"), bed.manager.pods())


def test_a_claim_whose_prepare_failed_is_unprepared_all_the_same(bed: Bed) -> None:
    bed.plugin(prepare=lambda _refs: {})
    bed.claim("one")
    refused(lambda: bed.manager.prepare(pod("one")))

    bed.manager.unprepare("uid-pod")

    assert [["one"]] == bed.asked("Unprepare")


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (lambda _refs: {}, "NodeUnprepareResources skipped 1 ResourceClaims"),
        (lambda _refs: {"x": {}}, "NodeUnprepareResources returned result for unknown claim UID x"),
        (
            lambda refs: {refs[0].uid: {"error": "busy"}},
            "NodeUnprepareResources failed for ResourceClaim one: busy",
        ),
    ],
    ids=["missing", "unknown", "error"],
)
def test_a_claim_that_cannot_be_unprepared_stays_known(bed: Bed, script: Any, text: str) -> None:
    plugin = bed.plugin(unprepare=script)
    bed.claim("one")
    bed.manager.prepare(pod("one"))

    assert f"unprepare dynamic resources: {text}" == refused(lambda: bed.manager.unprepare("uid-pod"))

    plugin.unprepare = None
    bed.manager.unprepare("uid-pod")
    assert [["one"], ["one"]] == bed.asked("Unprepare")


def test_without_its_driver_a_claim_cannot_be_unprepared(bed: Bed) -> None:
    plugin = bed.plugin()
    bed.claim("one")
    bed.manager.prepare(pod("one"))
    bed.store.deregister(A, str(plugin.endpoint))

    text = refused(lambda: bed.manager.unprepare("uid-pod"))

    assert f"unprepare dynamic resources: DRA driver {A} is not registered" == text


def test_after_a_restart_claims_are_prepared_again_and_the_ids_come_twice(bed: Bed) -> None:
    bed.plugin(prepare=lambda refs: {refs[0].uid: entry("v/c=1")})
    bed.claim("one")
    user = pod("one")
    bed.manager.prepare(user)

    bed.restart()
    bed.manager.prepare(user)

    assert [["one"], ["one"]] == bed.asked("Prepare")
    assert ["v/c=1", "v/c=1"] == bed.manager.cdi_ids(user, user["spec"]["containers"][0])


def test_after_a_restart_claims_are_unprepared_though_nobody_remembers_their_pod(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")
    bed.claim("two")
    bed.manager.prepare(pod("one", "two"))

    bed.restart()
    bed.manager.unprepare("uid-pod")

    assert ([["one", "two"]], set()) == (bed.asked("Unprepare"), bed.manager.pods())


def test_a_pod_may_join_a_claim_while_it_is_looked_which_pods_have_claims(bed: Bed) -> None:
    bed.plugin()
    bed.claim("shared")
    bed.manager.prepare(pod("shared"))
    info = bed.manager._known(pod(), "shared")

    def join() -> None:
        with bed.manager._cache.lock:
            info.pod_uids.add("uid-other")

    other = threading.Thread(target=join)

    class GoneThrough(set[str]):
        def __iter__(self) -> Iterator[str]:
            for uid in super().__iter__():
                if not other.ident:
                    other.start()
                    other.join(0.2)  # or it has to wait for us
                yield uid

    info.pod_uids = GoneThrough(info.pod_uids)

    assert {"uid-pod"} == bed.manager.pods()
    other.join()


def test_the_checkpoint_is_written_before_a_driver_is_called_in_the_kubelets_format(bed: Bed) -> None:
    seen: list[Any] = []

    def look(refs: list[ClaimRef]) -> dict[str, Any]:
        seen.append(json.loads((bed.root / "dra_manager_state").read_text()))
        return {refs[0].uid: entry("v/c=1", requests=("gpu",))}

    bed.plugin(prepare=look)
    bed.claim("one")
    bed.manager.prepare(pod("one"))
    after = json.loads((bed.root / "dra_manager_state").read_text())

    def claims(checkpoint: dict[str, Any]) -> Any:
        assert checkpoint["Checksum"] == zlib.crc32(checkpoint["Data"].encode())
        return json.loads(checkpoint["Data"])["ClaimInfoStateList"]

    state = {"ClaimUID": "uid-one", "ClaimName": "one", "Namespace": "ns", "PodUIDs": {"uid-pod": {}}}
    device = {
        "PoolName": "p",
        "DeviceName": "d",
        "ShareID": None,
        "RequestNames": ["gpu"],
        "CDIDeviceIDs": ["v/c=1"],
    }
    assert [{**state, "DriverState": {A: {"Devices": []}}}] == claims(seen[0])
    assert [{**state, "DriverState": {A: {"Devices": [device]}}}] == claims(after)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"Data": "{}", "Checksum": 1}', '{"Data": 1, "Checksum": 1}']
)
def test_a_damaged_checkpoint_is_refused_by_name(root: Path, content: str) -> None:
    (root / "dra_manager_state").write_text(content)

    with pytest.raises(RecordError, match=r"dra_manager_state .*; delete the file to start without it$"):
        ClaimCache(root / "dra_manager_state")


def test_a_checkpoint_that_cannot_be_written_fails_the_pod_before_any_driver_is_called(bed: Bed) -> None:
    bed.plugin()
    bed.claim("one")
    (bed.root / "dra_manager_state").mkdir()

    text = refused(lambda: bed.manager.prepare(pod("one")))

    assert text.startswith(
        "prepare dynamic resources: checkpoint ResourceClaim cache: could not save checkpoint"
    )
    assert [] == bed.plugins[A].calls
