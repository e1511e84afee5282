"""Mistakes that users made and reported, each with the answer that would have helped."""

from collections.abc import Callable
from textwrap import dedent
from typing import Any

from dra_driver.lint.fixes import fix

Found = Callable[..., dict[str, Any]]
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'


def test_an_attribute_that_one_node_lacks_is_unguarded(found: Found, published: Any) -> None:
    with_foo = published("attributes: {type: {string: gpu}, uuid: {string: a}, foo: {string: x}}")
    without = published("attributes: {type: {string: gpu}, uuid: {string: b}}", node="node-b")

    finding = found(f'{ATTRIBUTES}.foo == "x"', beside=(with_foo, without))["unguarded-attribute"]

    assert "warning" == finding.severity
    assert "gpu-0 of pool node-b/gpu" in finding.message
    assert f'write has({ATTRIBUTES}.foo) && {ATTRIBUTES}.foo == "x"' == finding.fix


def test_each_selector_says_how_many_devices_it_leaves(found: Found, published: Any) -> None:
    devices = [
        "attributes: {type: {string: gpu}, productName: {string: A100}}, capacity: {memory: {value: 80Gi}}"
    ] * 4

    finding = found(
        f'{ATTRIBUTES}.productName.startsWith("A")',
        f'{MEMORY}.compareTo(quantity("90Gi")) >= 0 || {ATTRIBUTES}.productName == "B100"',
        beside=(published(*devices),),
    )["never-matches"]

    assert "of 4, selector 0 leaves 4, selector 1 leaves 0" in finding.message


def test_a_version_with_a_leading_zero_gets_the_right_spelling(found: Found) -> None:
    finding = found(f'{ATTRIBUTES}.driverVersion.compareTo(semver("550.127.08")) >= 0')["bad-semver"]

    assert 'write "550.127.8"' == finding.fix
    assert "leading zeroes" in finding.message


def test_a_v1beta1_request_under_v1_goes_under_exactly(check: Any) -> None:
    text = dedent("""\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata: {name: t}
        spec:
          spec:
            devices:
              requests:
                - name: gpu
                  deviceClassName: gpu.nvidia.com
        """)

    (finding,) = check(text)
    fixed, left, _ = fix({"t.yaml": text.encode()})

    assert "version-shape" == finding.code
    assert [] == left
    assert (
        "- name: gpu\n          exactly:\n            deviceClassName: gpu.nvidia.com\n"
        in fixed["t.yaml"].decode()
    )
    assert [] == check(text.replace("/v1\n", "/v1beta1\n"))


def test_a_limit_of_80_gibibytes_leaves_out_the_80_gigabyte_card(found: Found) -> None:
    finding = found(f'has({MEMORY}) && {MEMORY}.isGreaterThan(quantity("80Gi"))')["just-missed"]

    assert "NVIDIA H100 80GB HBM3 with 81559Mi (79.6Gi)" in finding.message
    assert 'if they are meant, write quantity("79Gi")' == finding.fix


def test_on_a_cluster_of_such_cards_it_never_matches(found: Found, published: Any) -> None:
    slice_ = published("attributes: {type: {string: gpu}}, capacity: {memory: {value: 81559Mi}}")

    findings = found(f'{MEMORY}.isGreaterThan(quantity("80Gi"))', beside=(slice_,))

    assert {"never-matches"} == set(findings)
    assert (
        "the largest memory is 81559Mi (79.6Gi), of gpu-0 of pool node-a/gpu"
        in findings["never-matches"].message
    )


def test_a_named_model_and_more_memory_than_it_has_never_match(found: Found) -> None:
    finding = found(
        f'{ATTRIBUTES}.productName.contains("H100")',
        f'has({MEMORY}) && {MEMORY}.compareTo(quantity("80Gi")) >= 0',
    )["never-matches"]

    assert "the largest memory is 81559Mi (79.6Gi), of NVIDIA H100 80GB HBM3" in finding.message


def test_memory_as_a_text_attribute_of_an_invented_domain_has_three_findings(
    found: Found, published: Any
) -> None:
    slice_ = published("attributes: {type: {string: gpu}}, capacity: {memory: {value: 81559Mi}}")
    expression = 'device.attributes["gpu-driver.example.com"].memory >= "16Gi"'

    findings = found(expression, beside=(slice_,))

    assert {"unknown-domain", "capacity-as-attribute", "quantity-comparison"} == set(findings)
    assert 'did you mean "gpu.nvidia.com"?' == findings["unknown-domain"].fix
    assert f"write {MEMORY}" == findings["capacity-as-attribute"].fix
    assert f'write {MEMORY}.compareTo(quantity("16Gi")) >= 0' == findings["quantity-comparison"].fix


def test_an_expression_that_does_not_compile_is_explained(found: Found) -> None:
    finding = found('device.attributes["memory"].quantity().value() >= 24')["selector-does-not-compile"]

    assert (13, 53) == (finding.line, finding.column)
    assert "is a function that makes a quantity of a text" in (finding.fix or "")


def test_cel_and_expression_at_one_level_get_the_right_snippet(check: Any) -> None:
    text = dedent("""\
        apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: c}
        spec:
          selectors:
            - cel:
              expression: device.driver == "gpu.nvidia.com"
        """)

    (finding,) = check(text)

    assert ("selector-level", 7, 7) == (finding.code, finding.line, finding.column)
    assert 'write\n- cel:\n    expression: >-\n      device.driver == "gpu.nvidia.com"' == finding.fix


def claim(*requests: str, constraint: str) -> str:
    listed = "".join(f"      - {request}\n" for request in requests)
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n"
        f"    requests:\n{listed}    constraints:\n      - {constraint}\n"
    )


GPU = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}"
TWO_GPUS = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}"
NIC = "{name: nic, exactly: {deviceClassName: dranet}}"


def test_a_constraint_without_a_domain_gets_one(check: Any, published: Any) -> None:
    (finding,) = check(claim(TWO_GPUS, constraint="{matchAttribute: nvlinkClique}"))

    assert ("constraint-domain", "error") == (finding.code, finding.severity)
    assert "did you mean gpu.nvidia.com/nvlinkClique?" == finding.fix


def test_a_constraint_without_a_domain_of_another_driver_gets_its_domain(check: Any, published: Any) -> None:
    slice_ = published("attributes: {deviceID: {string: a}}", driver="gpu.amd.com")
    class_ = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.amd.com}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'gpu.amd.com'}}]}\n"
    )
    request = "{name: gpu, exactly: {deviceClassName: gpu.amd.com, count: 2}}"

    (finding,) = check(claim(request, constraint="{matchAttribute: deviceID}"), slice_, class_)

    assert "deviceID must be a domain and a name separated by a slash" == finding.message
    assert "did you mean gpu.amd.com/deviceID?" == finding.fix


def test_a_constraint_over_one_device_has_no_effect(check: Any) -> None:
    constraint = "{requests: [gpu], matchAttribute: resource.kubernetes.io/numaNode}"

    assert ["constraint-no-effect"] == [f.code for f in check(claim(GPU, constraint=constraint))]
    assert [] == check(claim(TWO_GPUS, constraint=constraint))


def test_a_constraint_on_what_all_devices_have_in_common_has_no_effect(check: Any) -> None:
    constraint = "{requests: [gpu], matchAttribute: gpu.nvidia.com/type}"

    assert ["constraint-no-effect"] == [f.code for f in check(claim(TWO_GPUS, constraint=constraint))]


def test_a_constraint_over_devices_of_two_drivers_gets_their_common_attribute(check: Any) -> None:
    (finding,) = check(claim(GPU, NIC, constraint="{matchAttribute: gpu.nvidia.com/numa}"))

    assert finding.fix == "all of them have resource.kubernetes.io/numaNode"


def test_a_constraint_names_the_request_whose_devices_lack_the_attribute(check: Any, published: Any) -> None:
    gpus = published("attributes: {type: {string: gpu}, numa: {int: 0}}")
    nics = published("attributes: {dra.net/numaNode: {int: 0}}", driver="dra.net")
    class_ = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: dranet}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'dra.net'}}]}\n"
    )
    own = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.nvidia.com}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'gpu.nvidia.com'}}]}\n"
    )

    (finding,) = check(
        claim(GPU, NIC, constraint="{matchAttribute: gpu.nvidia.com/numa}"), gpus, nics, class_, own
    )

    assert "devices of request nic do not have the attribute gpu.nvidia.com/numa" == finding.message
    assert "resource.kubernetes.io/numaNode" in (finding.fix or "")


def workload(kind: str = "Deployment", name: str = "d", template: str = "t", replicas: int = 3) -> str:
    return dedent(f"""\
        apiVersion: apps/v1
        kind: {kind}
        metadata: {{name: {name}}}
        spec:
          replicas: {replicas}
          template:
            spec:
              containers: [{{name: a, resources: {{claims: [{{name: gpu}}]}}}}]
              resourceClaims: [{{name: gpu, resourceClaimTemplateName: {template}}}]
        """)


def template(parameters: str = "", name: str = "t") -> str:
    config = (
        f", config: [{{opaque: {{driver: gpu.nvidia.com, parameters: {parameters}}}}}]" if parameters else ""
    )
    return (
        f"apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: {name}}}\n"
        f"spec: {{spec: {{devices: {{requests: [{GPU}]{config}}}}}}}\n"
    )


def test_more_replicas_of_a_template_than_there_are_gpus_are_told_of_shared_claims(
    check: Any, published: Any
) -> None:
    slice_ = published(*["attributes: {type: {string: gpu}}"] * 2)

    (finding,) = check(workload(), template(), slice_)

    assert ("template-not-shared", "warning") == (finding.code, finding.severity)
    assert "3 in all, and the slices have 2" in finding.message
    assert "make one ResourceClaim" in (finding.fix or "")


def test_time_slices_in_a_template_are_not_shared_between_pods(check: Any) -> None:
    parameters = (
        "{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: TimeSlicing}}"
    )

    findings = {f.code: f for f in check(workload(replicas=2), template(parameters))}

    assert "warning" == findings["template-not-shared"].severity
    assert "is inside one Pod" in findings["template-not-shared"].message


def test_replicas_alone_are_no_reason_to_fail(check: Any) -> None:
    assert ["info"] == [finding.severity for finding in check(workload(), template())]
    assert [] == check(workload(replicas=1), template())


def test_a_pod_that_uses_a_template_twice_is_still_one_pod(check: Any) -> None:
    twice = workload(replicas=1).replace(
        "resourceClaims: [", "resourceClaims: [{name: other, resourceClaimTemplateName: t}, "
    )
    twice = twice.replace("claims: [", "claims: [{name: other}, ")

    assert [] == check(twice, template())


def test_a_class_that_is_not_among_the_given_ones_comes_with_a_hint_to_install_it(
    check: Any, selected: Any
) -> None:
    class_ = (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: compute-domain-daemon.nvidia.com}\n"
        "spec: {selectors: [{cel: {expression: device.driver == 'compute-domain.nvidia.com'}}]}\n"
    )
    (finding,) = check(claim(TWO_GPUS, constraint="{matchAttribute: gpu.nvidia.com/nvlinkClique}"), class_)

    assert (
        "there is no DeviceClass gpu.nvidia.com; the files have compute-domain-daemon.nvidia.com"
        == finding.message
    )
    assert "apply deploy/deviceclasses.yaml, which comes with the driver" == finding.fix


def test_of_two_templates_the_missing_one_is_named(check: Any) -> None:
    pod = dedent("""\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: a, resources: {claims: [{name: one}, {name: two}]}}]
          resourceClaims:
            - {name: one, resourceClaimTemplateName: t}
            - {name: two, resourceClaimTemplateName: absent}
        """)

    (finding,) = check(pod, template())

    assert ("missing-claim", 8) == (finding.code, finding.line)
    assert "there is no ResourceClaimTemplate absent in namespace default" == finding.message


def test_a_template_of_another_namespace_is_not_found(check: Any) -> None:
    pod = workload(replicas=1).replace("{name: d}", "{name: d, namespace: team}")

    (finding,) = check(pod, template())

    assert "the one of that name is in namespace default; a Pod uses those of its own" == finding.fix


def test_without_any_template_in_the_files_it_is_only_information(check: Any) -> None:
    assert [("missing-claim", "info")] == [(f.code, f.severity) for f in check(workload(replicas=1))]
