"""What leads from Pods to claims, and what the driver will make of a claim's configuration."""

from textwrap import dedent
from typing import Any

import pytest

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
      - name: gpu
        firstAvailable:
          - {name: large, deviceClassName: gpu.nvidia.com, count: 2}
          - {name: small, deviceClassName: gpu.nvidia.com}
"""


def pod(claims: str, uses: str, spec: str = "") -> str:
    return dedent(f"""\
        apiVersion: v1
        kind: Pod
        metadata: {{name: p}}
        spec:
          containers: [{{name: app, resources: {{claims: [{uses}]}}}}]
          resourceClaims: [{claims}]
          {spec}
        """)


def codes(findings: Any) -> list[tuple[str, str | None]]:
    return [(finding.code, finding.fix) for finding in findings]


OURS = "{name: gpu, resourceClaimName: c}"
PODS = {
    "a container's claim that the Pod has not": (
        OURS,
        "{name: gpus}",
        ("unknown-pod-claim", "did you mean gpu?"),
    ),
    "a claim that no container uses": (
        f"{OURS}, {{name: spare, resourceClaimName: c}}",
        "{name: gpu}",
        ("unused-claim", "add it to a container: resources: {claims: [{name: spare}]}"),
    ),
    "a request that the claim has not": (
        OURS,
        "{name: gpu, request: gpus}",
        ("unknown-request", "did you mean gpu?"),
    ),
    "an alternative as a request": (
        OURS,
        "{name: gpu, request: gpu/large}",
        ("unknown-request", "write gpu: containers name the request, whichever alternative it becomes"),
    ),
    "a claim that is named as a template": (
        "{name: gpu, resourceClaimTemplateName: c}",
        "{name: gpu}",
        ("missing-claim", "the files have another kind of this name: write resourceClaimName"),
    ),
    "a name with a slip": (
        "{name: gpu, resourceClaimName: cc}",
        "{name: gpu}",
        ("missing-claim", "did you mean c?"),
    ),
}


@pytest.mark.parametrize(("claims", "uses", "expected"), PODS.values(), ids=PODS)
def test_a_name_that_leads_nowhere_is_told(check: Any, claims: str, uses: str, expected: Any) -> None:
    assert expected in codes(check(pod(claims, uses), CLAIM))


def test_a_pod_that_is_right_has_no_finding(check: Any) -> None:
    assert [] == check(pod(OURS, "{name: gpu, request: gpu}"), CLAIM)


def test_init_containers_use_claims_as_well(check: Any) -> None:
    spec = "initContainers: [{name: i, resources: {claims: [{name: gpu}]}}]"

    assert [] == check(pod(OURS, "", spec), CLAIM)


@pytest.mark.parametrize(
    ("kind", "version", "wrap"),
    [
        ("StatefulSet", "apps/v1", "template: {spec: %s}"),
        ("Job", "batch/v1", "template: {spec: %s}"),
        ("CronJob", "batch/v1", "jobTemplate: {spec: {template: {spec: %s}}}"),
    ],
)
def test_pods_inside_workloads_are_looked_at(check: Any, kind: str, version: str, wrap: str) -> None:
    spec = "{containers: [{name: a, resources: {claims: [{name: x}]}}]}"
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: w}}\nspec: {{{wrap % spec}}}\n"

    assert ["unknown-pod-claim"] == [finding.code for finding in check(text)]


def test_admin_access_is_an_error_where_the_namespace_is_known_to_lack_the_label(check: Any) -> None:
    claim = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c, namespace: watch}\n"
        "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}}]}}\n"
    )
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: watch, labels: {%s}}\n"
    label = 'resource.kubernetes.io/admin-access: "true"'

    assert ["info"] == [f.severity for f in check(claim)]
    assert ["error"] == [f.severity for f in check(claim, namespace % "a: b")]
    assert [] == check(claim, namespace % label)


def configured(parameters: str, *, driver: str = "gpu.nvidia.com", requests: str = "") -> str:
    return dedent(f"""\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {{name: c}}
        spec:
          devices:
            requests:
              - name: gpu
                exactly: {{deviceClassName: gpu.nvidia.com}}
            config:
              - opaque:
                  driver: {driver}
                  parameters: {parameters}
                requests: [{requests}]
        """)


OWN = "apiVersion: resource.nvidia.com/v1beta1"
PARAMETERS = {
    "an unknown field": (f"{{{OWN}, kind: GpuConfig, shring: 1}}", "parameters", "has no field 'shring'"),
    "an unknown kind": (
        f"{{{OWN}, kind: GpuConfg}}",
        "parameters.kind",
        "expected GpuConfig or MigDeviceConfig",
    ),
    "another version": (
        "{apiVersion: v1, kind: GpuConfig}",
        "parameters.apiVersion",
        "expected resource.nvidia",
    ),
    "a kind of the official driver alone": (
        f"{{{OWN}, kind: VfioDeviceConfig}}",
        "parameters.kind",
        "cannot be used",
    ),
    "a strategy that there is not": (
        f"{{{OWN}, kind: GpuConfig, sharing: {{strategy: Turns}}}}",
        "parameters.sharing.strategy",
        "expected TimeSlicing or MPS, not 'Turns'",
    ),
}


@pytest.mark.parametrize(("parameters", "path", "message"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_are_decoded_as_on_the_node(check: Any, parameters: str, path: str, message: str) -> None:
    (finding,) = check(configured(parameters))

    assert ("opaque-config", f"spec.devices.config[0].opaque.{path}") == (finding.code, finding.path)
    assert message in finding.message
    assert 12 == finding.line


def test_every_mistake_in_parameters_has_a_finding_at_its_place(check: Any) -> None:
    limits = "{strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 101, x: 1}, timeSlicingConfig: {}}"

    found = check(configured(f"{{{OWN}, kind: GpuConfig, sharing: {limits}}}"))

    parameters = "spec.devices.config[0].opaque.parameters.sharing"
    assert {
        f"{parameters}.mpsConfig.defaultActiveThreadPercentage",
        f"{parameters}.mpsConfig",
        f"{parameters}.timeSlicingConfig",
    } == {finding.path for finding in found}


def test_sharing_settings_that_are_right_have_no_finding(check: Any) -> None:
    assert [] == check(configured(f"{{{OWN}, kind: GpuConfig, sharing: {{strategy: MPS}}}}"))


def test_parameters_of_another_driver_are_not_judged(check: Any) -> None:
    assert [] == check(configured("{anything: 1}", driver="dra.net"))


def test_a_configuration_for_the_other_type_of_device_is_an_error_only_where_it_names_the_request(
    check: Any,
) -> None:
    parameters = f"{{{OWN}, kind: MigDeviceConfig}}"

    assert ["config-device-type"] == [f.code for f in check(configured(parameters, requests="gpu"))]
    assert [] == check(configured(parameters))


def test_configurations_of_classes_are_decoded_too(check: Any) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\nspec:\n  config:\n"
        f"    - opaque: {{driver: gpu.nvidia.com, parameters: {{{OWN}, kind: Nope}}}}\n"
    )

    assert ["opaque-config"] == [finding.code for finding in check(text)]


def test_a_class_of_the_official_driver_that_this_one_has_not_is_told(check: Any) -> None:
    text = configured(f"{{{OWN}, kind: GpuConfig}}").replace(
        "deviceClassName: gpu", "deviceClassName: vfio.gpu"
    )

    assert ["unknown-class"] == [finding.code for finding in check(text)]


def test_the_class_of_another_driver_is_nobodys_mistake(check: Any) -> None:
    text = configured("{a: 1}", driver="dra.net").replace("gpu.nvidia.com}", "dranet}")

    assert [] == check(text)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ("{name: a, exactly: {deviceClassName: gpu.nvidia.com, count: 33}}", ["too-many-devices"]),
        (
            (
                "{name: a, exactly: {deviceClassName: gpu.nvidia.com, count: 16}},"
                "{name: b, exactly: {deviceClassName: gpu.nvidia.com, count: 17}}"
            ),
            ["too-many-devices"],
        ),
        (
            (
                "{name: a, firstAvailable: [{name: x, deviceClassName: gpu.nvidia.com, count: 40},"
                "{name: y, deviceClassName: gpu.nvidia.com}]}"
            ),
            [],
        ),
    ],
)
def test_more_than_32_devices_are_too_many(check: Any, requests: str, expected: list[str]) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n"
        f"spec: {{devices: {{requests: [{requests}]}}}}\n"
    )

    assert expected == [finding.code for finding in check(text)]


@pytest.mark.parametrize(
    ("attribute", "device_class", "expected"),
    [
        ("gpu.nvidia.com/nvlinkClique", "mig.nvidia.com", "constraint-attribute-missing"),
        ("gpu.nvidia.com/memory", "gpu.nvidia.com", "capacity-as-attribute"),
        ("gpu.nvidia.com/nvlinkClick", "gpu.nvidia.com", "unknown-attribute"),
        ("gpu.nvidia.com/uuid", "mig.nvidia.com", "constraint-impossible"),
        ("gpu.nvidia.com/parentUUID", "mig.nvidia.com", None),
        ("resource.kubernetes.io/pciBusID", "mig.nvidia.com", None),
        ("resource.kubernetes.io/pciBusID", "gpu.nvidia.com", "constraint-impossible"),
    ],
)
def test_an_attribute_of_a_constraint_must_be_one_that_can_be_equal(
    check: Any, attribute: str, device_class: str, expected: str | None
) -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n"
        f"    requests: [{{name: a, exactly: {{deviceClassName: {device_class}, count: 2}}}}]\n"
        f"    constraints: [{{matchAttribute: {attribute}}}]\n"
    )

    assert ([] if expected is None else [expected]) == [finding.code for finding in check(text)]
