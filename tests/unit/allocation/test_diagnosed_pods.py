"""Why Pods wait: what they name and is not there, where they are tied to, who is in their way."""

from dataclasses import replace
from typing import Any

import pytest

from dra_driver.allocation.diagnosis import Diagnosis, World, diagnose_claim, diagnose_pod, diagnose_template

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"


class Cluster:
    """One node with GPUs, a class, and whatever a test adds."""

    def __init__(self) -> None:
        self.claims: list[Object] = []
        self.templates: list[Object] = []
        self.pods: list[Object] = []
        self.events: list[Object] = []
        self.nodes: list[Object] = [{"metadata": {"name": "n1", "labels": {"zone": "a"}}}]
        self.classes: list[Object] = [{"metadata": {"name": DRIVER}, "spec": {}}]
        self.devices: list[Object] = []
        self.gpu("gpu-0")

    def gpu(self, name: str, **fields: Any) -> None:
        attributes = {
            "type": "gpu",
            "uuid": f"GPU-{name}",
            "productName": "H100",
            **fields.pop("attributes", {}),
        }
        written = {key: {"string": value} for key, value in attributes.items()}
        self.devices.append({"name": name, "attributes": written, **fields})

    @staticmethod
    def spec(**exactly: Any) -> Object:
        return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, **exactly}}]}}

    def claim(self, name: str, *devices: str, pods: tuple[str, ...] = (), **exactly: Any) -> Object:
        metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
        claim: Object = {"metadata": metadata, "spec": self.spec(**exactly)}
        if devices:
            results = [
                {"request": "gpu", "driver": DRIVER, "pool": "n1/gpu", "device": one} for one in devices
            ]
            only = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
            selector = {"nodeSelectorTerms": [{"matchFields": [only]}]}
            claim["status"] = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
            claim["status"]["reservedFor"] = [
                {"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods
            ]
        self.claims.append(claim)
        return claim

    def template(self, name: str, **exactly: Any) -> None:
        metadata = {"name": name, "namespace": "team"}
        self.templates.append({"metadata": metadata, "spec": {"spec": self.spec(**exactly)}})

    def pod(self, name: str, *entries: Object, status: Object | None = None, **spec: Any) -> Object:
        claims = [{"name": f"c{index}", **entry} for index, entry in enumerate(entries)]
        pod = {
            "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "main"}], "resourceClaims": claims, **spec},
            "status": status or {"phase": "Pending"},
        }
        self.pods.append(pod)
        return pod

    @property
    def world(self) -> World:
        pool = {"name": "n1/gpu", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": self.devices}
        slices = [{"metadata": {"name": "s"}, "spec": spec}]
        return World(slices, self.classes, self.claims, self.templates, self.pods, self.nodes, self.events)

    def explained(self, pod: Object) -> Diagnosis:
        return diagnose_pod(self.world, pod)


def _remarks(diagnosis: Diagnosis) -> dict[str, str]:
    return {remark.code: remark.text for remark in diagnosis.remarks}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_pod_that_would_get_its_device_is_fine(cluster: Cluster) -> None:
    cluster.template("one")

    diagnosis = cluster.explained(cluster.pod("p", {"resourceClaimTemplateName": "one"}))

    assert (True, "can be scheduled, on n1") == (diagnosis.fine, diagnosis.summary)
    assert [("team/p-c0", "pending")] == [(claim.name, claim.state) for claim in diagnosis.claims]


def test_of_two_templates_the_one_that_is_missing_is_named(cluster: Cluster) -> None:
    cluster.template("there")

    diagnosis = cluster.explained(
        cluster.pod("p", {"resourceClaimTemplateName": "there"}, {"resourceClaimTemplateName": "their"})
    )

    assert {
        "template-missing": "claim c1 of the Pod: there is no ResourceClaimTemplate team/their; did you mean there?"
    } == _remarks(diagnosis)
    assert (False, "cannot be scheduled") == (diagnosis.fine, diagnosis.summary)


def test_a_template_of_another_namespace_is_no_help(cluster: Cluster) -> None:
    cluster.template("one")
    cluster.templates[0]["metadata"]["namespace"] = "other"

    diagnosis = cluster.explained(cluster.pod("p", {"resourceClaimTemplateName": "one"}))

    assert _remarks(diagnosis)["template-missing"].endswith(
        "; one of that name is in namespace other, and a Pod uses those of its own only"
    )


@pytest.mark.parametrize(
    ("entry", "code", "fix"),
    [
        (
            {"resourceClaimName": "t"},
            "claim-missing",
            "t is a ResourceClaimTemplate: name it as resourceClaimTemplateName",
        ),
        (
            {"resourceClaimTemplateName": "c"},
            "template-missing",
            "c is a ResourceClaim: name it as resourceClaimName",
        ),
    ],
)
def test_a_claim_and_a_template_that_were_mixed_up_are_told(
    cluster: Cluster, entry: Object, code: str, fix: str
) -> None:
    cluster.template("t")
    cluster.claim("c")

    (remark,) = cluster.explained(cluster.pod("p", entry)).remarks

    assert (code, fix) == (remark.code, remark.fix)


def test_a_class_that_is_missing_is_named_with_those_that_there_are(cluster: Cluster) -> None:
    names = ("compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com")
    cluster.classes = [{"metadata": {"name": name}, "spec": {}} for name in names]
    cluster.claim("c")

    (remark,) = cluster.explained(cluster.pod("p", {"resourceClaimName": "c"})).remarks

    assert "claim team/c, request gpu: there is no DeviceClass gpu.nvidia.com" in remark.text
    assert "compute-domain-daemon.nvidia.com" in remark.text
    assert "install the classes of this driver: kubectl apply -k deploy/" == remark.fix


def test_an_allocated_claim_ties_its_pods_to_its_node(cluster: Cluster) -> None:
    cluster.nodes.append({"metadata": {"name": "n2"}})
    cluster.claim("shared", "gpu-0", pods=("other",))
    pod = cluster.pod("p", {"resourceClaimName": "shared"}, nodeSelector={"zone": "b"})
    cluster.nodes[1]["metadata"]["labels"] = {"zone": "b"}

    diagnosis = cluster.explained(pod)

    assert diagnosis.explanation is not None
    assert {
        "n1": ("node(s) didn't match Pod's node affinity/selector",),
        "n2": ("claim team/shared has its devices elsewhere (pool n1/gpu)",),
    } == {report.nodes[0]: report.obstacles for report in diagnosis.explanation.nodes}
    assert not diagnosis.fine


def test_a_claim_shows_its_devices_with_model_and_uuid(cluster: Cluster) -> None:
    claim = cluster.claim("c", "gpu-0", pods=("p",))

    diagnosis = diagnose_claim(cluster.world, claim)

    (state,) = diagnosis.claims
    assert "is allocated,reserved on n1" == diagnosis.summary
    assert ("n1", ("team/p",)) == (state.node, state.pods)
    assert [("gpu", "gpu-0", "H100", "GPU-gpu-0")] == [
        (one.request, one.device, one.product, one.uuid) for one in state.devices
    ]


def test_the_uuid_of_a_device_that_was_made_for_a_claim_is_what_its_driver_reports(cluster: Cluster) -> None:
    claim = cluster.claim("c", "gpu-0-mig-1g", pods=("p",))
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    others = [{**result, "device": "gpu-1", "data": {"uuid": "MIG-2"}}, {**result, "pool": "n2", "data": 1}]
    claim["status"]["devices"] = [*others, {**result, "data": {"uuid": "MIG-1"}}]

    (state,) = diagnose_claim(cluster.world, claim).claims

    assert [("gpu-0-mig-1g", "MIG-1")] == [(one.device, one.uuid) for one in state.devices]


def test_a_claim_that_is_allocated_and_reserved_for_nobody_is_told(cluster: Cluster) -> None:
    diagnosis = diagnose_claim(cluster.world, cluster.claim("leak", "gpu-0"))

    assert {
        "not-reserved": "claim team/leak is allocated and reserved for nobody: it holds its devices, and no Pod uses them"
    } == _remarks(diagnosis)


def test_a_claim_that_is_reserved_for_a_pod_that_is_gone_is_told(cluster: Cluster) -> None:
    """Only where all Pods are known; a Pod of the same name that came later is another one."""
    claim = cluster.claim("leak", "gpu-0", pods=("p", "q"))
    cluster.pod("p")
    cluster.pod("q")["metadata"]["uid"] = "another"

    assert {} == _remarks(diagnose_claim(cluster.world, claim))
    assert {
        "user-gone": "claim team/leak is reserved for Pod team/q, which is gone: it holds its devices, and nobody uses"
        " them"
    } == _remarks(diagnose_claim(replace(cluster.world, all_pods=True), claim))


def test_a_device_that_is_published_no_more_is_told(cluster: Cluster) -> None:
    diagnosis = diagnose_claim(cluster.world, cluster.claim("c", "gpu-9", pods=("p",)))

    assert (
        "device gpu.nvidia.com/n1/gpu/gpu-9 of claim team/c is in no ResourceSlice any more"
        == (_remarks(diagnosis)["device-gone"])
    )


def test_a_claim_by_itself_is_asked_about_all_nodes(cluster: Cluster) -> None:
    claim = cluster.claim("c", count=2)

    diagnosis = diagnose_claim(cluster.world, claim)

    assert "cannot be allocated: no node has what it asks for" == diagnosis.summary
    assert (
        "no Pod uses it; a claim gets its devices when a Pod that names it is scheduled"
        == (_remarks(diagnosis)["unused"])
    )


def test_a_template_is_asked_about_as_the_claim_that_it_makes(cluster: Cluster) -> None:
    cluster.template("two", count=2)
    cluster.template("one")

    summaries = [diagnose_template(cluster.world, template).fine for template in cluster.templates]

    assert [False, True] == summaries


def test_pods_of_one_template_each_need_devices_of_their_own(cluster: Cluster) -> None:
    cluster.template("one")
    made = cluster.claim("first-c0", "gpu-0", pods=("first",))
    made["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "c0"}

    diagnosis = cluster.explained(cluster.pod("second", {"resourceClaimTemplateName": "one"}))

    remark = next(remark for remark in diagnosis.remarks if remark.code == "claim-per-pod")
    assert "1 other claim of this template holds devices" in remark.text
    assert "resourceClaimName" in str(remark.fix)
    assert "allow multiple allocations" in str(remark.fix)


def test_pods_of_lower_priority_are_named_and_not_preempted(cluster: Cluster) -> None:
    cluster.claim("held", "gpu-0", pods=("low",))
    cluster.pod("low", {"resourceClaimName": "held"}, nodeName="n1", priority=0)
    cluster.claim("wanted")

    diagnosis = cluster.explained(cluster.pod("high", {"resourceClaimName": "wanted"}, priority=1000))

    assert (
        "Pods of lower priority than 1000 hold devices that this one could have: team/low (0); the scheduler does"
        " not preempt them for devices"
    ) == _remarks(diagnosis)["no-preemption"]


def test_a_share_of_capacity_is_not_enforced(cluster: Cluster) -> None:
    cluster.gpu("gpu-1", allowMultipleAllocations=True, capacity={"memory": {"value": "80Gi"}})
    claim = cluster.claim("half", capacity={"requests": {"memory": "40Gi"}})

    diagnosis = diagnose_claim(cluster.world, claim)

    assert "nothing keeps a container from using more" in _remarks(diagnosis)["capacity-not-enforced"]


def test_counters_that_the_api_server_dropped_are_told(cluster: Cluster) -> None:
    cluster.gpu("mig-0", attributes={"type": "mig", "parentUUID": "GPU-gpu-0"})
    claim = cluster.claim("c", count=3)

    remark = next(
        one for one in diagnose_claim(cluster.world, claim).remarks if one.code == "counters-dropped"
    )

    assert "switch on the feature gate DRAPartitionableDevices" == remark.fix


class TestPodsWithANode:
    def _pod(self, cluster: Cluster, message: str = "", phase: str = "Pending") -> Diagnosis:
        pod = cluster.pod("p", {"resourceClaimName": "c"}, nodeName="n1", status={"phase": phase})
        if message:
            about = {"kind": "Pod", "name": "p", "namespace": "team", "uid": "uid-p"}
            cluster.events.append(
                {"reason": "FailedPrepareDynamicResources", "involvedObject": about, "message": message}
            )
        return cluster.explained(pod)

    def test_a_pod_that_runs_has_its_devices_prepared(self, cluster: Cluster) -> None:
        cluster.claim("c", "gpu-0", pods=("p",))
        diagnosis = self._pod(cluster, phase="Running")

        assert (True, "is on node n1") == (diagnosis.fine, diagnosis.summary)
        assert {"prepared": "its devices are prepared on node n1"} == _remarks(diagnosis)

    def test_nothing_heard_of_preparing_is_told(self, cluster: Cluster) -> None:
        cluster.claim("c", "gpu-0", pods=("p",))

        assert {"not-prepared": "node n1 has not said yet that its devices are prepared"} == _remarks(
            self._pod(cluster)
        )

    def test_what_the_driver_said_is_repeated_without_the_prefixes(self, cluster: Cluster) -> None:
        cluster.claim("c", "gpu-0", pods=("p",))
        message = (
            "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for"
            " ResourceClaim c: device gpu-0 cannot be used: it is lost"
        )

        diagnosis = self._pod(cluster, message)

        assert {
            "prepare-failed": "not prepared: driver gpu.nvidia.com said: device gpu-0 cannot be used: it is lost"
        } == _remarks(diagnosis)
        assert not diagnosis.fine

    def test_of_two_drivers_the_one_that_is_ready_is_not_blamed(self, cluster: Cluster) -> None:
        claim = cluster.claim("c", "gpu-0", pods=("p",))
        nic = {"request": "nic", "driver": "dra.net", "pool": "n1", "device": "eth1"}
        claim["status"]["allocation"]["devices"]["results"].append(nic)
        message = "NodePrepareResources failed for ResourceClaim c: no link"

        before = self._pod(cluster, message)
        ready = [{"type": "Ready", "status": "True"}]
        claim["status"]["devices"] = [{"driver": DRIVER, "device": "gpu-0", "conditions": ready}]
        after = cluster.explained(cluster.pods[0])

        assert [
            "not prepared: one of the drivers gpu.nvidia.com, dra.net said: no link",
            "not prepared: driver dra.net said: no link",
        ] == [_remarks(one)["prepare-failed"] for one in (before, after)]

    def test_a_driver_that_does_not_run_is_named(self, cluster: Cluster) -> None:
        cluster.claim("c", "gpu-0", pods=("p",))
        diagnosis = self._pod(cluster, "prepare dynamic resources: DRA driver dra.net is not registered")

        assert "driver dra.net does not run on node n1" in _remarks(diagnosis)["driver-not-registered"]

    def test_a_container_that_does_not_start_is_told(self, cluster: Cluster) -> None:
        cluster.claim("c", "gpu-0", pods=("p",))
        waiting = {"reason": "CreateContainerError", "message": "CDI device injection failed: unresolvable"}
        status = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": waiting}}]}
        pod = cluster.pod("p", {"resourceClaimName": "c"}, nodeName="n1", status=status)

        assert _remarks(cluster.explained(pod))["container-waiting"].endswith("unresolvable")


class TestExtendedResources:
    def _pod(self, cluster: Cluster, name: str) -> Diagnosis:
        container = {"name": "main", "resources": {"limits": {name: "2"}}}
        return cluster.explained(cluster.pod("p", containers=[container]))

    def test_they_are_explained_as_the_claim_that_the_scheduler_makes(self, cluster: Cluster) -> None:
        cluster.classes[0]["spec"]["extendedResourceName"] = "nvidia.com/gpu"

        diagnosis = self._pod(cluster, "nvidia.com/gpu")

        assert ["team/p-extended-resources"] == [claim.name for claim in diagnosis.claims]
        assert "cannot be scheduled: no node has what it asks for" == diagnosis.summary

    def test_one_that_no_class_stands_for_is_told(self, cluster: Cluster) -> None:
        diagnosis = self._pod(cluster, "nvidia.com/gpu")

        assert {
            "resource-unknown": "no DeviceClass stands for the extended resource nvidia.com/gpu, and no node offers it"
        } == _remarks(diagnosis)
        assert not diagnosis.fine

    def test_one_that_a_device_plugin_offers_is_none_of_our_business(self, cluster: Cluster) -> None:
        cluster.nodes[0]["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}

        assert (True, "asks for no devices") == (
            self._pod(cluster, "nvidia.com/gpu").fine,
            self._pod(cluster, "nvidia.com/gpu").summary,
        )


def test_scheduling_gates_and_other_schedulers_are_told(cluster: Cluster) -> None:
    cluster.template("one")
    entry = {"resourceClaimTemplateName": "one"}

    gated = cluster.explained(cluster.pod("p", entry, schedulingGates=[{"name": "quota"}]))
    other = cluster.explained(cluster.pod("q", entry, schedulerName="mine"))

    assert "it is not looked at before its scheduling gates are gone: quota" == _remarks(gated)["gated"]
    assert (False, True) == (gated.fine, other.fine)
    assert "other-scheduler" in _remarks(other)


def test_a_claim_that_was_made_for_an_earlier_pod_is_told(cluster: Cluster) -> None:
    claim = cluster.claim("p-c0-x1")
    claim["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": "earlier"}]
    status = {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "p-c0-x1"}]}

    diagnosis = cluster.explained(cluster.pod("p", {"resourceClaimTemplateName": "one"}, status=status))

    assert (
        "claim team/p-c0-x1 was made for an earlier Pod of this name"
        == _remarks(diagnosis)["claim-of-another"]
    )


def test_a_driver_that_reports_a_device_as_not_ready_is_repeated(cluster: Cluster) -> None:
    claim = cluster.claim("c", "gpu-0", pods=("p",))
    conditions = [{"type": "Ready", "status": "False", "message": "no link"}]
    claim["status"]["devices"] = [{"driver": "dra.net", "device": "eth1", "conditions": conditions}]

    assert {"device-not-ready": "driver dra.net says of device eth1 of claim team/c: no link"} == _remarks(
        diagnose_claim(cluster.world, claim)
    )
