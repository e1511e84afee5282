"""AdmissionReviews that come in, well-formed and not, and the answers that go out."""

import json
from typing import Any

import pytest

from dra_driver.controller.webhook.protocol import Cause, MalformedError, Verdict, decode, encode

REQUEST: dict[str, Any] = {
    "uid": "u",
    "kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"},
    "operation": "CREATE",
    "namespace": "team",
    "object": {"spec": {}},
    "oldObject": None,
}
REVIEW: dict[str, Any] = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}


def test_a_request_is_read() -> None:
    request = decode(json.dumps(REVIEW).encode())

    assert ("u", "ResourceClaim", "resource.k8s.io/v1", "CREATE", "team") == (
        request.uid,
        request.kind,
        request.api_version,
        request.operation,
        request.namespace,
    )
    assert ({"spec": {}}, {}) == (request.object, request.old)


def test_a_kind_of_the_core_group_has_a_version_only() -> None:
    pod = {**REQUEST, "kind": {"group": "", "version": "v1", "kind": "Pod"}}

    assert "v1" == decode(json.dumps({**REVIEW, "request": pod}).encode()).api_version


MALFORMED = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"a": "\xff"}',
    "a list": b"[]",
    "a number": b"1e999",
    "deep": b"[" * 100_000,
    "deep maps": b'{"a":' * 100_000,
    "digits": b'{"a": ' + b"9" * 10_000 + b"}",
    "another kind": json.dumps({**REVIEW, "kind": "Pod"}).encode(),
    "another version": json.dumps({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
    "no request": json.dumps({**REVIEW, "request": None}).encode(),
    "a request of text": json.dumps({**REVIEW, "request": "x"}).encode(),
    "no uid": json.dumps({**REVIEW, "request": {**REQUEST, "uid": ""}}).encode(),
    "a uid of another type": json.dumps({**REVIEW, "request": {**REQUEST, "uid": 1}}).encode(),
    "an endless uid": json.dumps({**REVIEW, "request": {**REQUEST, "uid": "x" * 1000}}).encode(),
    "no kind": json.dumps({**REVIEW, "request": {**REQUEST, "kind": None}}).encode(),
    "a kind of numbers": json.dumps({**REVIEW, "request": {**REQUEST, "kind": {"kind": 1}}}).encode(),
    "a namespace of another type": json.dumps({**REVIEW, "request": {**REQUEST, "namespace": []}}).encode(),
    "an object of another type": json.dumps({**REVIEW, "request": {**REQUEST, "object": []}}).encode(),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_review_is_told_in_a_sentence(name: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode(MALFORMED[name])

    assert 0 < len(str(caught.value)) < 300


def answer(verdict: Verdict) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode("u", verdict))
    assert ("admission.k8s.io/v1", "AdmissionReview") == (body["apiVersion"], body["kind"])
    response: dict[str, Any] = body["response"]
    return response


def test_yes_is_short() -> None:
    assert {"uid": "u", "allowed": True} == answer(Verdict())


def test_no_has_all_reasons_in_one_answer() -> None:
    response = answer(Verdict((Cause("spec.a", "is wrong"), Cause("", "is  also\nwrong"))))

    assert not response["allowed"]
    assert "spec.a: is wrong; is also wrong" == response["status"]["message"]
    assert ("Invalid", 422) == (response["status"]["reason"], response["status"]["code"])


def test_warnings_are_bounded_in_length_and_number() -> None:
    response = answer(Verdict(warnings=("x" * 10_000, *("w" for _ in range(30)))))

    assert response["allowed"]
    assert 512 == len(response["warnings"][0])
    assert "and 15 more" == response["warnings"][-1]


def test_a_message_is_bounded() -> None:
    causes = tuple(Cause("p", "m" * 500) for _ in range(100))

    assert 8192 == len(answer(Verdict(causes))["status"]["message"])
