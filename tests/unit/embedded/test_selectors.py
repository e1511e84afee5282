"""Label and field selectors."""

from typing import Any

import pytest

from dra_driver.embedded.apiserver.kinds import EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from dra_driver.embedded.apiserver.selectors import parse
from dra_driver.embedded.apiserver.status import StatusError


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "1"}, False),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2)", {"a": "1"}, False),
        ("a>5", {"a": "6"}, True),
        ("a<5", {"a": "5"}, False),
        ("a>5", {"a": "x"}, False),
        ("a=1,b in (2),!c", {"a": "1", "b": "2"}, True),
        ("a=1,b in (2),!c", {"a": "1", "b": "2", "c": "3"}, False),
        ("example.com/a=1", {"example.com/a": "1"}, True),
        ("a=", {"a": ""}, True),
    ],
)
def test_label_selectors_match_as_in_kubernetes(
    selector: str, labels: dict[str, str], expected: bool
) -> None:
    assert parse(NODE, selector, None).matches(labelled(**labels)) is expected


@pytest.mark.parametrize("selector", ["a b", "a=1 b=2", "a in 1", "=", "a>x", "(", "a in (1"])
def test_label_selectors_that_cannot_be_read_are_bad_requests(selector: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse(NODE, selector, None)

    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("kind", "selector", "obj", "expected"),
    [
        (NODE, "metadata.name=n", {}, True),
        (NODE, "metadata.name!=n", {}, False),
        (RESOURCE_SLICE, "spec.driver=d,spec.nodeName=x", {"spec": {"driver": "d", "nodeName": "x"}}, True),
        (RESOURCE_SLICE, "spec.nodeName=", {"spec": {"allNodes": True}}, True),
        (RESOURCE_SLICE, "spec.pool.name=p", {"spec": {"pool": {"name": "p"}}}, True),
        (POD, "spec.nodeName=n,status.phase!=Failed", {"spec": {"nodeName": "n"}}, True),
        (POD, "status.phase=Running", {"status": {"phase": "Pending"}}, False),
        (
            EVENT,
            "involvedObject.name=p,source=s",
            {"involvedObject": {"name": "p"}, "source": {"component": "s"}},
            True,
        ),
    ],
)
def test_field_selectors_match_as_in_kubernetes(
    kind: Kind, selector: str, obj: dict[str, Any], expected: bool
) -> None:
    assert parse(kind, None, selector).matches({**labelled(), **obj}) is expected


@pytest.mark.parametrize(
    ("kind", "selector", "text"),
    [
        (POD, "spec.x=1", "field label not supported: spec.x"),
        (RESOURCE_CLAIM, "spec.x=1", "field label not supported: spec.x"),
        (POD, "spec.x", "invalid selector: 'spec.x'; can't understand 'spec.x'"),
    ],
)
def test_fields_that_cannot_be_selected_by_are_named(kind: Kind, selector: str, text: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse(kind, None, selector)

    assert (caught.value.code, str(caught.value)) == (400, text)
