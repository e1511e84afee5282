"""Whatever is in a file, lint answers with findings, and soon."""

import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_driver.lint import RULES, Finding, lint
from dra_driver.lint.fixes import fix

CODES = {rule.code for rule in RULES}
SECONDS = (
    5.0  # of the processor: far above what is meant (one or two), and far below what a catastrophe takes
)


def claims(expressions: list[str]) -> str:
    requests = [
        {
            "name": f"r{number}",
            "exactly": {
                "deviceClassName": "gpu.nvidia.com",
                "selectors": [{"cel": {"expression": expression}}],
            },
        }
        for number, expression in enumerate(expressions)
    ]
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    return yaml.safe_dump({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **body})


LOOP = "[1,2,3,4,5,6,7,8,9,10]"
HOSTILE = {
    "nested parentheses": "(" * 5000 + "true" + ")" * 5000,
    "nested lists": "[" * 5000 + "]" * 5000,
    "nested calls": "!" * 9000 + "true",
    "long chains": " && ".join(['device.driver == "x"'] * 400),
    "loops in loops": ".all(x, ".join([LOOP] * 9) + ".all(x, true" + ")" * 9,
    "growing texts": "cel.bind(a, 'xxxxxxxxxx', cel.bind(b, a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b, (c+c+c+c+c+c).size() > 1)))",
    "growing lists": f"{LOOP}.map(x, {LOOP}.map(y, {LOOP}.map(z, {LOOP}))).flatten().size() > 1",
    "a catastrophic pattern": f"'{'a' * 5000}!'.matches('^(a+)+$')",
    "a huge pattern": "device.driver.matches('" + "(a{1000}){1000}" + "')",
    "control characters": "device.driver == '\\x00\\u0000'",
    "numbers beyond 64 bits": "9" * 5000 + " > 1",
    "no text": "",
    "only blanks": " \n\t ",
    "an unclosed quote": "device.driver == 'x",
    "strange characters": "дevice.driver == '\u202e' && 😀",
    "a quantity of many digits": f"quantity('{'9' * 9000}').isGreaterThan(quantity('1e-999999999'))",
    "a version of many digits": f"semver('{'9' * 3000}.{'9' * 3000}.0') == semver('1.0.0')",
}


def within_time(text: str) -> list[Finding]:
    begin = time.process_time()
    findings = lint([("f", text.encode())])
    assert time.process_time() - begin < SECONDS
    return findings


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_expression_is_answered_soon(expression: str) -> None:
    findings = within_time(claims([expression]))

    assert {finding.code for finding in findings} <= CODES
    assert all("\n" not in finding.message for finding in findings)


def test_more_selectors_than_can_be_checked_are_said_to_be_unchecked() -> None:
    expressions = [f"device.driver == '{number:0>5000}'" for number in range(32)]

    assert "not-checked" in {finding.code for finding in within_time(claims(expressions))}


def test_selectors_that_are_tried_too_often_end_soon() -> None:
    loop = f"{LOOP}.all(a, {LOOP}.all(b, {LOOP}.all(c, a + b + c + 1 > 0)))"
    expressions = [loop.replace("1 >", f"{number} >") for number in range(32)]

    within_time(claims(expressions) + "---\n" + claims([e + " || true" for e in expressions]))


def test_a_large_file_of_real_objects_is_linted_in_time() -> None:
    one = claims(['device.attributes["gpu.nvidia.com"].productName == "NVIDIA L4"'])

    assert {"info", "warning"} >= {finding.severity for finding in within_time("---\n".join([one] * 400))}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "requests", "cel", "expression", "", "a.b", "exactly"]), inner
        )
    ),
    max_leaves=6,
)
FIELDS = [
    "name", "exactly", "firstAvailable", "deviceClassName", "selectors", "cel", "expression", "count", "allocationMode",
    "adminAccess", "capacity", "requests", "tolerations", "constraints", "matchAttribute", "config", "opaque", "driver",
    "parameters", "devices", "spec", "basic", "attributes", "pool", "template", "resourceClaims", "source", "replicas",
    "containers", "resources", "claims", "resourceClaimTemplateName", "items",
]  # fmt: skip
SHAPES = st.recursive(
    JSON | st.sampled_from(["gpu.nvidia.com", "true", "device.driver", "uuid", "80GB", "All", "a/b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=25,
)
KINDS = st.sampled_from(
    [
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("resource.k8s.io/v1beta1", "ResourceClaimTemplate"),
        ("resource.k8s.io/v1beta2", "DeviceClass"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("resource.k8s.io/v1beta1", "ResourceSlice"),
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("v1", "List"),
        ("v1", "Namespace"),
    ]
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(KINDS, SHAPES, SHAPES), min_size=1, max_size=3))
def test_objects_of_any_shape_are_answered_and_fixing_them_is_idempotent(objects: list[Any]) -> None:
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        for (version, kind), metadata, spec in objects
    ]
    data = yaml.safe_dump_all(documents).encode()

    findings = lint([("f", data)])
    once, _, _ = fix({"f": data})
    twice, _, _ = fix(once)

    assert {finding.code for finding in findings} <= CODES
    assert once == twice


ATOMS = [
    'device.attributes["gpu.nvidia.com"].productName', 'device.capacity["gpu.nvidia.com"].memory', "device.driver",
    'device.attributes["gpu.nvidia.com"].uuid', 'device.attributes["gpu.nvidia.com"].driverVersion', "device.attributes",
    'device.attributes["gpu.nvidia.com"]', 'device.attributes["x"]["y"]', 'device.attributes["gpu.nvidia.com"].?numa',
    'device.attributes["gpu.nvidia.com"].migCapable', '"a"', '"("', "1", "1.5", "true", "null", "[]", '["a", "b"]', "{}",
    'quantity("1Gi")', 'quantity("1GB")', 'semver("1.2.3")', 'semver("1.2")', 'semver("1", true)', "device", "x", "b'a'",
    "duration('1s')", "optional.none()", "1u",
]  # fmt: skip
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||", "==", "!=", ">=", "<", "in", "+"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(
            inner,
            st.sampled_from(
                [
                    "compareTo",
                    "isLessThan",
                    "isGreaterThan",
                    "contains",
                    "startsWith",
                    "matches",
                    "orValue",
                    "add",
                ]
            ),
            inner,
        ).map(lambda parts: f"{parts[0]}.{parts[1]}({parts[2]})"),
        st.tuples(inner, st.sampled_from(["memory", "productName", "lowerAscii()", "?x", "profile"])).map(
            ".".join
        ),
        inner.map("!{}".format),
        inner.map("has({}.x)".format),
        st.tuples(inner, inner).map(lambda parts: f"cel.bind(x, {parts[0]}, {parts[1]})"),
        st.tuples(inner, inner).map(lambda parts: f"{parts[0]}.exists(x, {parts[1]})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=400)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3))
def test_expressions_of_any_form_are_answered_and_fixing_them_is_idempotent(expressions: list[str]) -> None:
    data = claims(expressions).encode()

    findings = lint([("f", data)])
    once, left, _ = fix({"f": data})

    assert {finding.code for finding in (*findings, *left)} <= CODES
    assert all(finding.severity == "error" for finding in findings if finding.edits)
    assert once == fix(once)[0]


REQUESTS = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])},
    optional={
        "exactly": SHAPES,
        "firstAvailable": SHAPES,
        "deviceClassName": st.just("gpu.nvidia.com"),
        "selectors": st.lists(
            st.dictionaries(
                st.sampled_from(["cel", "expression"]), SHAPES | st.text("()'\"&|.adevic", max_size=9)
            )
        ),
        "count": SHAPES,
    },
)


@settings(deadline=None, max_examples=150)
@given(st.lists(REQUESTS, max_size=3), SHAPES, SHAPES, st.sampled_from(["v1", "v1beta1", "v1beta2"]))
def test_claims_of_almost_the_right_shape_are_answered(
    requests: list[Any], constraints: Any, config: Any, version: str
) -> None:
    claim = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": requests, "constraints": constraints, "config": config}},
    }

    assert {finding.code for finding in lint([("f", yaml.safe_dump(claim).encode())])} <= CODES


@settings(deadline=None, max_examples=200)
@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_are_answered(data: bytes) -> None:
    assert {finding.code for finding in lint([("f", data)])} <= CODES
