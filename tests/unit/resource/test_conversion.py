"""Objects move between v1beta1, v1beta2 and v1 without loss."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.resource.conversion import VERSIONS, convert, is_convertible

SELECTORS = [{"cel": {"expression": "true"}}]
V1 = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "a", "exactly": {"deviceClassName": "x", "count": 2, "selectors": SELECTORS}},
                    {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "y"}]},
                ],
                "constraints": [{"matchAttribute": "a/b"}],
            }
        }
    },
}
V1BETA1 = {
    **V1,
    "apiVersion": "resource.k8s.io/v1beta1",
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "a", "deviceClassName": "x", "count": 2, "selectors": SELECTORS},
                    {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "y"}]},
                ],
                "constraints": [{"matchAttribute": "a/b"}],
            }
        }
    },
}


def test_the_fields_of_a_request_move_out_of_exactly_and_back() -> None:
    assert V1BETA1 == convert(V1, "v1beta1")
    assert V1 == convert(V1BETA1, "v1")


def test_v1beta2_has_the_shapes_of_v1() -> None:
    assert {**V1, "apiVersion": "resource.k8s.io/v1beta2"} == convert(V1, "v1beta2")
    assert V1BETA1 == convert(convert(V1, "v1beta2"), "v1beta1")


def test_what_a_slice_says_of_a_device_moves_into_basic_and_back() -> None:
    device = {"name": "a", "attributes": {"x": {"int": 1}}, "taints": []}
    slice_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {"devices": [device, {"name": "b"}]},
    }

    old = convert(slice_, "v1beta1")

    assert [
        {"name": "a", "basic": {"attributes": {"x": {"int": 1}}, "taints": []}},
        {"name": "b", "basic": {}},
    ] == old["spec"]["devices"]
    assert slice_ == convert(old, "v1")


def test_the_given_object_stays_as_it_is() -> None:
    before = copy.deepcopy(V1)
    convert(V1, "v1beta1")

    assert before == V1


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceClaim"},
    ],
)
def test_what_has_no_other_version_is_refused(obj: dict[str, Any]) -> None:
    assert not is_convertible(obj)
    with pytest.raises(ValueError, match="not known in several versions"):
        convert(obj, "v1")


@pytest.mark.parametrize(
    "request_", [{"name": "a", "exactly": {}, "count": 1}, {"name": "a", "exactly": {"x": 1}}, 7, None]
)
def test_what_has_no_place_in_the_other_version_stays_where_it_is(request_: Any) -> None:
    obj = {**V1, "kind": "ResourceClaim", "spec": {"devices": {"requests": [request_]}}}

    assert [request_] == convert(obj, "v1beta1")["spec"]["devices"]["requests"]


VALUES = st.recursive(st.integers() | st.text(max_size=3), lambda v: st.lists(v, max_size=2), max_leaves=3)
EXACT = st.dictionaries(
    st.sampled_from(["deviceClassName", "count", "selectors", "adminAccess", "tolerations"]),
    VALUES,
    min_size=1,
)
REQUEST = st.fixed_dictionaries(
    {"name": st.text(max_size=3)}, optional={"exactly": EXACT}
) | st.fixed_dictionaries({"name": st.text(max_size=3), "firstAvailable": VALUES})


@given(st.lists(REQUEST, max_size=4), st.lists(st.sampled_from(VERSIONS), max_size=4))
def test_any_way_through_the_versions_loses_nothing(requests: list[Any], way: list[Any]) -> None:
    claim = {**V1, "kind": "ResourceClaim", "spec": {"devices": {"requests": requests}}}
    moved = claim
    for version in way:
        moved = convert(moved, version)

    assert claim == convert(moved, "v1")
