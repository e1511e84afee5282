"""Verdicts on requests, with a cluster that is told what to know."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from dra_driver import strictjson
from dra_driver.config.opaque import decode
from dra_driver.controller.config import WebhookConfig
from dra_driver.controller.webhook.policy import Policy
from dra_driver.controller.webhook.protocol import Request, Verdict
from dra_driver.controller.webhook.reviewer import Reviewer
from dra_driver.errors import ConfigError, UnavailableError
from dra_driver.lint import Surroundings
from dra_driver.lint.claims import DeviceClass, Text

Object = dict[str, Any]
V1 = "resource.k8s.io/v1"
MEMORY = 'device.attributes["gpu.nvidia.com"].memory == "40Gi"'
CLASSES = {
    name: DeviceClass(name, (Text("spec", "device.driver == 'gpu.nvidia.com'"),))
    for name in ("gpu.nvidia.com", "mig.nvidia.com")
}


class KnownCluster:
    """A cluster of dicts; `away` is raised at lookups."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.labels: dict[str, dict[str, str]] = {"team": {}}
        self.away: Exception | None = None

    def surroundings(self, classes: Iterable[str]) -> Surroundings:
        return Surroundings((), CLASSES)

    def namespace(self, name: str) -> Object | None:
        if self.away:
            raise self.away
        labels = self.labels.get(name)
        metadata = {"name": name, "labels": labels}
        return None if labels is None else {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        if self.away:
            raise self.away
        return self.objects.get((kind, namespace, name))

    def names(self, kind: str, namespace: str) -> Iterable[str]:
        return [known[2] for known in self.objects if known[:2] == (kind, namespace)]


@pytest.fixture
def cluster() -> KnownCluster:
    return KnownCluster()


Review = Callable[..., Verdict]


@pytest.fixture
def review(cluster: KnownCluster) -> Review:
    def run(obj: Object, old: Object | None = None, *, operation: str = "CREATE", **config: Any) -> Verdict:
        reviewer = Reviewer(cluster, Policy(WebhookConfig.model_validate(config)))
        namespace = obj["metadata"].get("namespace", "")
        request = Request("u", obj["kind"], obj["apiVersion"], operation, namespace, obj, old or {})
        return reviewer.review(request)[0]

    return run


def claim(*expressions: str, api_version: str = V1, **devices: Any) -> Object:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    request: Object = {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}
    if not api_version.endswith("v1beta1"):
        request = {"exactly": request}
    return {
        "apiVersion": api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"devices": {"requests": [{"name": "gpu", **request}], **devices}},
    }


def template(**devices: Any) -> Object:
    found = claim(**devices)
    metadata = {"name": "one-gpu", "namespace": "team"}
    return {**found, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": found["spec"]}}


def config(**parameters: Any) -> Object:
    whole = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **parameters}
    return {"opaque": {"driver": "gpu.nvidia.com", "parameters": whole}}


def pod(*names: str, kind: str = "Pod") -> Object:
    claims = [{"name": f"c{n}", "resourceClaimTemplateName": name} for n, name in enumerate(names)]
    uses = [{"name": entry["name"]} for entry in claims]
    container = {"name": "app", "image": "app", "resources": {"claims": uses}}
    spec: Object = {"containers": [container], "resourceClaims": claims}
    versions = {"Pod": "v1", "Deployment": "apps/v1", "Job": "batch/v1"}
    if kind != "Pod":
        spec = {"template": {"spec": spec}}
    metadata = {"name": "p", "namespace": "team"}
    return {"apiVersion": versions[kind], "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_claim_of_every_version_is_checked(review: Review, version: str) -> None:
    verdict = review(claim(MEMORY, api_version=f"resource.k8s.io/{version}"))

    assert "memory is a capacity, not an attribute" in verdict.causes[0].message


def test_all_mistakes_of_a_configuration_are_told_in_one_answer(review: Review) -> None:
    sharing = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 200, "x": 1}}
    verdict = review(claim(config=[config(sharing=sharing), config(more=1)]))

    assert {
        "spec.devices.config[0].opaque.parameters.sharing.mpsConfig.defaultActiveThreadPercentage",
        "spec.devices.config[0].opaque.parameters.sharing.mpsConfig",
        "spec.devices.config[1].opaque.parameters",
    } == {cause.path for cause in verdict.causes}


def test_a_key_that_is_twice_in_a_configuration_is_refused(review: Review) -> None:
    text = b'{"strategy": "MPS", "strategy": "TimeSlicing"}'
    verdict = review(claim(config=[config(sharing=strictjson.loads(text))]))

    assert any("strategy" in cause.message and "twice" in cause.message for cause in verdict.causes)


def test_a_good_claim_passes_without_a_word(review: Review) -> None:
    assert Verdict() == review(
        claim("device.attributes['gpu.nvidia.com'].?productName.orValue('') == 'NVIDIA L4'")
    )


def test_a_template_and_a_class_are_checked_too(review: Review) -> None:
    selector = {"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'x'"}}
    wrong = {
        "apiVersion": V1,
        "kind": "DeviceClass",
        "metadata": {"name": "d"},
        "spec": {"selectors": [selector]},
    }

    assert not review(template(config=[config(x=1)])).allowed
    assert any("[class-without-driver]" in warning for warning in review(wrong).warnings)


def test_a_configuration_of_another_driver_is_not_ours_to_judge(review: Review) -> None:
    other = {"opaque": {"driver": "net.example.com", "parameters": {"a": {"b": [{}] * 3}}}}

    assert Verdict() == review(claim(config=[other]))


def test_a_missing_class_is_told_with_near_ones(review: Review) -> None:
    wrong = claim()
    wrong["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "gpu.nvidia.co"

    (warning,) = review(wrong).warnings

    assert "there is no DeviceClass gpu.nvidia.co" in warning
    assert "did you mean gpu.nvidia.com?" in warning


def test_the_policy_of_a_namespace_decides(cluster: KnownCluster, review: Review) -> None:
    cluster.labels["team"] = {"lenient": "yes"}
    entry = {"matchLabels": {"lenient": "yes"}, "rules": {"opaque-config": "warn"}}
    wrong = claim(config=[config(x=1)])

    assert not review(wrong).allowed
    lenient = review(wrong, namespaces=[entry])
    assert lenient.allowed
    assert 1 == len(lenient.warnings)


@pytest.mark.parametrize("label", [None, "true"])
def test_admin_access_is_looked_at_with_the_namespaces_label(
    cluster: KnownCluster, review: Review, label: str | None
) -> None:
    cluster.labels["team"] = {"resource.kubernetes.io/admin-access": label} if label else {}
    asking = claim()
    asking["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True

    warned = any("lacks the label" in warning for warning in review(asking).warnings)

    assert warned == (label is None)


def test_an_update_that_leaves_the_spec_alone_is_not_refused(review: Review) -> None:
    wrong = claim(MEMORY)

    assert Verdict() == review(
        {**wrong, "metadata": {**wrong["metadata"], "labels": {"a": "b"}}}, wrong, operation="UPDATE"
    )
    assert not review(wrong, claim(), operation="UPDATE").allowed


def test_an_object_that_is_being_deleted_is_let_go(review: Review) -> None:
    wrong = claim(MEMORY)
    wrong["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert Verdict() == review(wrong, claim(), operation="UPDATE")


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", "", "NONSENSE"])
def test_other_operations_are_none_of_our_business(review: Review, operation: str) -> None:
    assert review(claim(MEMORY), operation=operation).allowed


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("resource.k8s.io/v9", "ResourceClaim"), ("v1", "ConfigMap"), (V1, "Gadget"), ("", "")],
)
def test_what_is_not_known_is_let_through_and_told(review: Review, api_version: str, kind: str) -> None:
    verdict = review({**claim(MEMORY), "apiVersion": api_version, "kind": kind})

    assert verdict.allowed
    assert "is not known here, so not checked" in verdict.warnings[0]


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "Job"])
def test_a_workload_whose_template_is_missing_is_warned_about(
    cluster: KnownCluster, review: Review, kind: str
) -> None:
    cluster.objects["ResourceClaimTemplate", "team", "one-gpu"] = template()

    verdict = review(pod("one-gpus", kind=kind))

    assert verdict.allowed
    assert any(
        "no ResourceClaimTemplate one-gpus in namespace team; did you mean one-gpu?" in w
        for w in verdict.warnings
    )


def test_a_workload_of_what_is_there_passes_without_a_word(cluster: KnownCluster, review: Review) -> None:
    cluster.objects["ResourceClaimTemplate", "team", "one-gpu"] = template()

    assert Verdict() == review(pod("one-gpu"))


def test_what_cannot_be_looked_up_is_not_called_missing(cluster: KnownCluster, review: Review) -> None:
    cluster.away = UnavailableError("the API server is away")

    assert Verdict() == review(pod("one-gpu"))
    assert not review(claim(MEMORY)).allowed


def test_no_policy_refuses_a_workload(review: Review) -> None:
    verdict = review(pod("one-gpu"), rules={"missing-claim": "deny"})

    assert verdict.allowed
    assert verdict.warnings


def test_what_others_wrote_beside_it_is_not_told_of_a_workload(cluster: KnownCluster, review: Review) -> None:
    cluster.objects["ResourceClaimTemplate", "team", "one-gpu"] = template(config=[config(x=1)])

    assert Verdict() == review(pod("one-gpu"))


API = "resource.nvidia.com/v1beta1"
MPS: Object = {"strategy": "MPS"}
SLICED: Object = {"strategy": "TimeSlicing"}
PARAMETERS: list[Any] = [
    {"apiVersion": API, "kind": "GpuConfig"},
    {"apiVersion": API, "kind": "MigDeviceConfig"},
    {"apiVersion": API, "kind": "GpuConfig", "sharing": None},
    {"apiVersion": API, "kind": "GpuConfig", "sharing": {}},
    {"apiVersion": API, "kind": "GpuConfig", "sharing": MPS},
    {"apiVersion": API, "kind": "GpuConfig", "sharing": SLICED},
    *(
        {"apiVersion": API, "kind": "GpuConfig", "sharing": {**MPS, "mpsConfig": config}}
        for config in (
            {},
            {"defaultActiveThreadPercentage": 50},
            {"defaultActiveThreadPercentage": -1},
            {"defaultActiveThreadPercentage": "50"},
            {"defaultActiveThreadPercentage": 50.5},
            {"defaultPinnedDeviceMemoryLimit": "1Gi"},
            {"defaultPinnedDeviceMemoryLimit": "1 Gi"},
            {"defaultPinnedDeviceMemoryLimit": "1Ki"},
            {"defaultPerDevicePinnedMemoryLimit": {"0": "1Gi"}},
            {"defaultPerDevicePinnedMemoryLimit": {"../": "1Gi"}},
            {"defaultPerDevicePinnedMemoryLimit": {"\x00": "1Gi"}},
            {"defaultPerDevicePinnedMemoryLimit": {"G" * 300: "1Gi"}},
        )
    ),
    *(
        {"apiVersion": API, "kind": "GpuConfig", "sharing": {**SLICED, "timeSlicingConfig": config}}
        for config in (
            {"interval": "Long"},
            {"interval": "long"},
            {"interval": 1},
        )
    ),
    {"apiVersion": API, "kind": "GpuConfig", "sharing": {**SLICED, "mpsConfig": {}}},
    {"apiVersion": API, "kind": "MigDeviceConfig", "sharing": MPS},
    {"apiVersion": API, "kind": "VfioDeviceConfig"},
    {"apiVersion": API, "kind": "ComputeDomainChannelConfig", "domainID": "x"},
    {"apiVersion": "resource.nvidia.com/v1", "kind": "GpuConfig"},
    {"apiVersion": API, "kind": "gpuconfig"},
    {"apiVersion": API},
    {"kind": "GpuConfig"},
    {},
    [],
    "GpuConfig",
    {"apiVersion": API, "kind": "GpuConfig", "sharing": [MPS]},
    {"apiVersion": API, "kind": "GpuConfig", "Sharing": MPS},
]


@pytest.mark.parametrize("number", range(len(PARAMETERS)))
def test_a_configuration_is_refused_here_exactly_if_it_would_be_on_the_node(
    review: Review, number: int
) -> None:
    parameters = PARAMETERS[number]
    try:
        decode(parameters, "parameters")
        taken = True
    except ConfigError:
        taken = False

    entry = {"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
    assert taken == review(claim(config=[entry])).allowed
