"""The webhook against requests that nobody would write: always an answer that an API server understands, and soon.

Requests are made from what the schemas of the API say (kinds, versions, the fields of claims and Pods), filled with right
and wrong values, texts of the CEL dialect, and rubbish; and from bytes. They go through TLS and the whole process.
"""

import json
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dra_driver.controller.webhook.part import WebhookPart
from dra_driver.kube.resources import DEVICE_CLASSES

SETTINGS = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
DRIVER = "gpu.nvidia.com"

texts = st.one_of(
    st.sampled_from(
        [DRIVER, "mig.nvidia.com", "gpu", "gpu/x", "", "a" * 300, "../..", "0", "\x00", "\ud800"]
    ),
    st.text(max_size=20),
)
rubbish = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
pieces = st.sampled_from(
    f'device .attributes .capacity ["{DRIVER}"] .memory .productName == > && || ! ( ) "x" 1 quantity( semver( .all(x, '
    "has( .?a [? { } in , ? : '".split()
)
selectors = st.one_of(
    st.lists(pieces, max_size=12).map("".join),
    st.integers(0, 400).map(lambda depth: "(" * depth + "true" + ")" * depth),
    st.integers(0, 300).map(lambda size: " + ".join(["'x'"] * size) + " == ''"),
    texts,
)


def fields(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of these fields, each right or rubbish; or rubbish altogether."""
    mixed = {name: st.one_of(value, value, value, rubbish) for name, value in known.items()}
    return st.one_of(*[st.fixed_dictionaries({}, optional=mixed)] * 4, rubbish)


parameters = fields(
    apiVersion=st.just("resource.nvidia.com/v1beta1"),
    kind=st.sampled_from(["GpuConfig", "MigDeviceConfig", "VfioDeviceConfig"]),
    sharing=fields(
        strategy=st.sampled_from(["TimeSlicing", "MPS"]),
        mpsConfig=fields(
            defaultActiveThreadPercentage=st.integers(),
            defaultPinnedDeviceMemoryLimit=st.sampled_from(["1Gi", "x", "1e999999999"]),
        ),
    ),
)
config = st.lists(
    fields(
        opaque=fields(driver=st.just(DRIVER), parameters=parameters), requests=st.lists(texts, max_size=2)
    ),
    max_size=3,
)
cel = st.lists(fields(cel=fields(expression=selectors)), max_size=3)
wish = {"deviceClassName": texts, "selectors": cel, "count": st.integers(), "adminAccess": st.booleans()}
wish |= {"name": texts, "capacity": fields(requests=st.dictionaries(texts, texts, max_size=2))}
request = fields(**wish, exactly=fields(**wish), firstAvailable=st.lists(fields(**wish), max_size=2))
constraint = fields(matchAttribute=texts, distinctAttribute=texts, requests=st.lists(texts, max_size=2))
devices = fields(
    requests=st.lists(request, max_size=3), constraints=st.lists(constraint, max_size=2), config=config
)
use = fields(name=texts, request=texts)
pod = fields(
    containers=st.lists(fields(name=texts, resources=fields(claims=st.lists(use, max_size=2))), max_size=2),
    resourceClaims=st.lists(
        fields(name=texts, resourceClaimName=texts, resourceClaimTemplateName=texts), max_size=2
    ),
)
specs = {
    ("resource.k8s.io", "ResourceClaim"): fields(devices=devices),
    ("resource.k8s.io", "ResourceClaimTemplate"): fields(spec=fields(devices=devices)),
    ("resource.k8s.io", "DeviceClass"): fields(selectors=cel, config=config),
    ("", "Pod"): pod,
    ("apps", "Deployment"): fields(replicas=st.integers(), template=fields(spec=pod)),
    ("batch", "Job"): fields(parallelism=st.integers(), template=fields(spec=pod)),
}
metadata = fields(name=texts, namespace=texts, labels=st.dictionaries(texts, texts, max_size=2))


@st.composite
def reviews(draw: st.DrawFn) -> Any:
    group, kind = draw(st.sampled_from(sorted(specs)))
    spec = specs[group, kind]
    version = draw(st.sampled_from(["v1", "v1", "v1beta1", "v1beta2", "v9"]))
    asked = {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": kind},
        "operation": draw(st.sampled_from(["CREATE", "CREATE", "UPDATE", "DELETE"])),
        "namespace": draw(st.sampled_from(["team", "", "nowhere"])),
        "object": draw(fields(metadata=metadata, spec=spec)),
        "oldObject": draw(st.one_of(st.none(), fields(spec=spec))),
    }
    if draw(st.integers(0, 9)) == 0:
        asked[draw(st.sampled_from(sorted(asked)))] = draw(rubbish)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


@pytest.fixture
def connection(door: Any, webhook: WebhookPart) -> Iterator[HTTPSConnection]:
    connection = HTTPSConnection("127.0.0.1", webhook.port, timeout=60, context=trusting(webhook))
    yield connection
    connection.close()


def trusting(webhook: WebhookPart) -> ssl.SSLContext:
    authorities = webhook.keeper._material.authorities  # type: ignore[union-attr]  # it is ready
    context = ssl.create_default_context(cadata=(authorities or b"").decode())
    context.check_hostname = False  # the certificate is for the Service
    return context


def post(connection: HTTPSConnection, body: bytes) -> tuple[int, bytes]:
    connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


@SETTINGS
@given(review=reviews())
def test_every_review_gets_a_verdict_or_is_told_to_be_none(connection: HTTPSConnection, review: Any) -> None:
    status, body = post(connection, json.dumps(review).encode())

    assert status in {200, 400}
    if status == 200:
        answered = json.loads(body)
        response = answered["response"]
        assert {"apiVersion", "kind", "response"} == set(answered)
        assert "u" == response["uid"]
        assert response["allowed"] is not ("status" in response)
        assert all(
            isinstance(warning, str) and "\n" not in warning for warning in response.get("warnings", [])
        )
        assert response["allowed"] or response["status"]["message"]
        workload = review["request"]["kind"].get("kind") in {"Pod", "Deployment", "Job"}
        assert response["allowed"] or not workload


@SETTINGS
@given(body=st.one_of(st.binary(max_size=200), rubbish.map(lambda value: json.dumps(value).encode())))
def test_every_other_body_is_told_to_be_none(connection: HTTPSConnection, body: bytes) -> None:
    assert 400 == post(connection, body)[0]


def claim_of(**spec: Any) -> bytes:
    kind = {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}
    obj = {"metadata": {"name": "c", "namespace": "team"}, "spec": spec}
    asked = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "team", "object": obj}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    return json.dumps(review).encode()


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": [value]}
    return value


def asking(*expressions: str) -> Any:
    chosen = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": DRIVER, "selectors": chosen}
    return {"devices": {"requests": [{"name": f"r{n}", "exactly": exactly} for n in range(32)]}}


HOSTILE = {
    "deep parameters": {"devices": {"config": [{"opaque": {"driver": DRIVER, "parameters": nested(200)}}]}},
    "deep elsewhere": {"devices": nested(300)},
    "a million values": {"devices": {"config": [0] * 1_000_000}},
    "a text of megabytes": {"devices": {"requests": [{"name": "x" * 3_000_000}]}},
    "many selectors": asking(*(f"device.driver == '{n}'" for n in range(32))),
    "long selectors": asking(*(f"'{'x' * 10_000}{n}' == ''" for n in range(8))),
    "selectors that loop": asking(
        "[1,2,3,4].all(a, [1,2,3,4].all(b, [1,2,3,4].all(c, [1,2,3,4].all(d, a+b+c+d>0))))"
    ),
    "selectors that grow": asking("'x'" + ".replace('x', 'xxxxxxxxxx')" * 12 + ".size() > 0"),
    "a regular expression": asking("device.driver.matches('(a*)*(b*)*(c+)+$')"),
    "deep selectors": asking("!" * 5_000 + "true", "(" * 5_000, "[" * 4_000 + "]" * 4_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_are_answered_within_the_webhooks_time(
    connection: HTTPSConnection, name: str
) -> None:
    body = claim_of(**HOSTILE[name])
    begin = time.process_time()

    status, _ = post(connection, body)

    assert 200 == status
    assert (
        time.process_time() - begin < 5
    )  # as deploy/webhook.yaml has it; on a machine that does nothing else


def test_an_api_server_that_is_silent_keeps_a_review_no_longer_than_it_may_take(
    door: Any, connection: HTTPSConnection
) -> None:
    """Nothing is called missing that could not be asked for."""
    door.server.faults.delay(30.0, "get", DEVICE_CLASSES, times=None)
    wishes = [{"name": f"r{n}", "exactly": {"deviceClassName": f"{n}.nvidia.com"}} for n in range(32)]
    connection.timeout = 5

    status, body = post(connection, claim_of(devices={"requests": wishes}))

    assert (200, {"uid": "u", "allowed": True}) == (status, json.loads(body)["response"])
