"""--fix changes what it must and nothing else, and once is enough."""

from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.lint import RULES, lint
from dra_driver.lint.fixes import fix
from dra_driver.lint.pages import example
from dra_driver.resource.conversion import convert


def fixed(text: str) -> str:
    files, _, _ = fix({"f": text.encode()})
    return files["f"].decode()


# what it is for -> before, after
CHANGES = {
    "a v1beta1 request in block style": (
        """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          devices:
            requests:
            # the big one
            - name: gpu  # its name
              deviceClassName: gpu.nvidia.com  # its class

              # two of them
              count: 2
              selectors:
              - cel:
                  expression: |
                    device.attributes["gpu.nvidia.com"].migCapable

            - deviceClassName: gpu.nvidia.com
              name: other
        """,
        """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          devices:
            requests:
            # the big one
            - name: gpu  # its name
              exactly:
                deviceClassName: gpu.nvidia.com  # its class

                # two of them
                count: 2
                selectors:
                - cel:
                    expression: |
                      device.attributes["gpu.nvidia.com"].migCapable

            - exactly:
                deviceClassName: gpu.nvidia.com
              name: other
        """,
    ),
    "a v1beta1 request in flow style": (
        """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com, count: 2}]}}
        """,
        """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]}}
        """,
    ),
    "cel and expression": (
        """\
        apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: c}
        spec:
          selectors:
            - cel:   # ours
              expression: >-
                device.driver == 'gpu.nvidia.com' &&
                true
            - expression: device.driver == 'gpu.nvidia.com'
            - cel: device.driver == 'gpu.nvidia.com'
        """,
        """\
        apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: c}
        spec:
          selectors:
            - cel:   # ours
                expression: >-
                  device.driver == 'gpu.nvidia.com' &&
                  true
            - cel:
                expression: device.driver == 'gpu.nvidia.com'
            - cel:
                expression: device.driver == 'gpu.nvidia.com'
        """,
    ),
    "the source of a Pod's claim": (
        """\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: a, resources: {claims: [{name: one}, {name: two}]}}]
          resourceClaims:
            - name: one
              source:
                resourceClaimTemplateName: t  # kept
            - {name: two, source: {resourceClaimName: c}}
        """,
        """\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: a, resources: {claims: [{name: one}, {name: two}]}}]
          resourceClaims:
            - name: one
              resourceClaimTemplateName: t  # kept
            - {name: two, resourceClaimName: c}
        """,
    ),
    "spellings": (
        """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          devices:
            requests:
              - name: gpu
                exactly:
                  deviceClassName: gpu.nvidia.com
                  count: 2
                  selectors:
                    - cel: {expression: 'device.attributes["gpu.nvidia.com"].productname == "NVIDIA L4"'}
                    - cel: {expression: "device.attributes[\\"gpu.nvidia.com\\"].memory.compareTo(quantity('20 GiB')) > 0"}
                    - cel:
                        expression: device.attributes['gpu.nvidia.com'].driverVersion.isLessThan(semver('v570.08'))
            constraints: [{matchAttribute: numaNode}]
        """,
        """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          devices:
            requests:
              - name: gpu
                exactly:
                  deviceClassName: gpu.nvidia.com
                  count: 2
                  selectors:
                    - cel: {expression: 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"'}
                    - cel: {expression: "device.capacity[\\"gpu.nvidia.com\\"].memory.compareTo(quantity('20Gi')) > 0"}
                    - cel:
                        expression: device.attributes['gpu.nvidia.com'].driverVersion.isLessThan(semver('570.8.0'))
            constraints: [{matchAttribute: resource.kubernetes.io/numaNode}]
        """,
    ),
}
BAD = [pytest.param(text, id=rule.code) for rule in RULES if (text := example(rule, "bad")) is not None]


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_only_the_mistake_is_changed(before: str, after: str) -> None:
    assert dedent(after) == fixed(dedent(before))


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_windows_line_ends_stay(before: str, after: str) -> None:
    assert dedent(after).replace("\n", "\r\n") == fixed(dedent(before).replace("\n", "\r\n"))


@pytest.mark.parametrize("text", BAD)
def test_fixing_twice_changes_nothing_more(text: str) -> None:
    assert fixed(text) == fixed(fixed(text))


@pytest.mark.parametrize("text", BAD)
def test_what_was_fixed_is_no_finding_any_more(text: str) -> None:
    fixable = {finding.code for finding in lint([("f", text.encode())]) if finding.edits}

    assert set() == fixable & {finding.code for finding in lint([("f", fixed(text).encode())])}


LEFT_ALONE = {
    "fields that do not stand together": """\
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: c}
        spec:
          devices:
            requests:
              - deviceClassName: gpu.nvidia.com
                name: gpu
                count: 2
        """,
    "a comment where lines would be joined": """\
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: a, resources: {claims: [{name: one}]}}]
          resourceClaims:
            - name: one
              source:  # from a template
                resourceClaimTemplateName: t
        """,
    "a unit that is a guess": """\
        apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: c}
        spec:
          selectors:
            - cel:
                expression: >-
                  device.driver == 'gpu.nvidia.com' &&
                  device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80 gigs')) > 0
        """,
    "a value that is written with escapes": """\
        apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: c}
        spec:
          selectors:
            - cel:
                expression: "device.driver == 'gpu.nvidia.com' && semver('9\\u002e0') == semver('9.0.0')"
        """,
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_has_no_safe_answer_is_left_alone(text: str) -> None:
    errors = [finding for finding in lint([("f", dedent(text).encode())]) if finding.severity == "error"]

    assert errors
    assert dedent(text) == fixed(dedent(text))


def test_a_byte_order_mark_stays() -> None:
    before, _ = (dedent(text) for text in CHANGES["a v1beta1 request in flow style"])

    files, _, count = fix({"f": b"\xef\xbb\xbf" + before.encode()})

    assert files["f"].startswith(b"\xef\xbb\xbfapiVersion")
    assert 1 == count


FLAT = st.fixed_dictionaries(
    {"name": st.just("gpu"), "deviceClassName": st.just("gpu.nvidia.com")},
    optional={
        "count": st.integers(1, 4),
        "allocationMode": st.just("ExactCount"),
        "adminAccess": st.booleans(),
        "selectors": st.lists(
            st.sampled_from(
                ["true", "device.driver == 'a'", "device.driver ==\n'a' &&\n\n  true\n", "\"x\" == 'x'"]
            ).map(lambda text: {"cel": {"expression": text}}),
            max_size=2,
        ),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)


@given(
    st.lists(FLAT, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.booleans(),
)
def test_a_fixed_request_is_the_converted_one(
    requests: list[dict[str, Any]], flow: bool, style: Any, windows: bool
) -> None:
    requests = [{"name": request["name"], **request} for request in requests]  # what is moved stands together
    old = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": requests}},
    }
    mixed = {**old, "apiVersion": "resource.k8s.io/v1"}
    # Keys in a style of their own would be no manifest that anybody writes.
    text = yaml.dump(mixed, Dumper=_styled(style), default_flow_style=flow, sort_keys=False, width=60)
    text = text.replace("\n", "\r\n") if windows else text

    assert convert(old, "v1") == yaml.safe_load(fixed(text))


def _styled(style: Any) -> type[yaml.SafeDumper]:
    class Styled(yaml.SafeDumper):
        """Expressions in one style, everything else plain."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style if " " in text else None)

    Styled.add_representer(str, represent)
    return Styled
