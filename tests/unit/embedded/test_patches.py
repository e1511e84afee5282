"""The three patch formats as such."""

from typing import Any

import pytest

from dra_driver.embedded.apiserver.patches import PatchError, json_patch, merge, strategic_merge
from dra_driver.embedded.apiserver.status import StatusError

POD = {"$ref": "io.k8s.api.core.v1.Pod"}


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [  # the examples of RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_rfc(target: Any, patch: Any, expected: Any) -> None:
    assert merge(target, patch) == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/list/1", "value": 9}, {"list": [1, 9, 2], "map": {"a/b": 1}}),
        ({"op": "add", "path": "/list/-", "value": 9}, {"list": [1, 2, 9], "map": {"a/b": 1}}),
        ({"op": "add", "path": "/map/a~1b", "value": 2}, {"list": [1, 2], "map": {"a/b": 2}}),
        ({"op": "remove", "path": "/list/0"}, {"list": [2], "map": {"a/b": 1}}),
        ({"op": "replace", "path": "/list/0", "value": 7}, {"list": [7, 2], "map": {"a/b": 1}}),
        ({"op": "move", "from": "/map/a~1b", "path": "/moved"}, {"list": [1, 2], "map": {}, "moved": 1}),
        ({"op": "copy", "from": "/list", "path": "/map"}, {"list": [1, 2], "map": [1, 2]}),
        ({"op": "test", "path": "/list/0", "value": 1}, {"list": [1, 2], "map": {"a/b": 1}}),
        ({"op": "replace", "path": "", "value": {}}, {}),
    ],
)
def test_json_patches_do_what_they_say_to_a_copy(operation: dict[str, Any], expected: Any) -> None:
    target = {"list": [1, 2], "map": {"a/b": 1}}

    assert json_patch(target, [operation]) == expected
    assert target == {"list": [1, 2], "map": {"a/b": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/nope/deeper", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/list/\N{SUPERSCRIPT TWO}", "value": 1},
        {"op": "add", "path": f"/list/{'9' * 5000}", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "fly", "path": "/b"},
        {"op": "add"},
    ],
)
def test_operations_that_do_not_apply_are_errors(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        json_patch({"a": 1, "list": []}, [operation])


@pytest.mark.parametrize("patch", [{}, [1], "x"])
def test_what_is_no_json_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(StatusError):
        json_patch({}, patch)


def strategic(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = strategic_merge({"spec": target}, {"spec": patch}, POD)["spec"]
    return spec


def test_list_items_are_merged_by_key_added_and_deleted() -> None:
    containers = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    patch = [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c", "image": "3"}]

    assert strategic({"containers": containers}, {"containers": patch}) == {
        "containers": [{"name": "a", "image": "2"}, {"name": "c", "image": "3"}]
    }


def test_a_list_without_a_strategy_is_replaced() -> None:
    container = {"name": "a", "command": ["x", "y"]}
    patch = {"containers": [{"name": "a", "command": ["z"]}]}

    assert strategic({"containers": [container]}, patch) == {"containers": [{"name": "a", "command": ["z"]}]}


def test_directives_replace_maps_lists_and_order_items() -> None:
    target = {"nodeSelector": {"a": "1"}, "containers": [{"name": "a"}, {"name": "b"}]}

    assert strategic(target, {"nodeSelector": {"$patch": "replace", "b": "2"}})["nodeSelector"] == {"b": "2"}
    replaced = strategic(target, {"containers": [{"$patch": "replace"}, {"name": "c"}]})
    assert replaced["containers"] == [{"name": "c"}]
    ordered = strategic(target, {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]})
    assert ordered["containers"] == [{"name": "b"}, {"name": "a"}]


def test_values_leave_sets_one_by_one() -> None:
    target = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}

    assert strategic_merge(target, patch, POD) == {"metadata": {"finalizers": ["b", "c"]}}


def test_retained_keys_drop_the_others() -> None:
    volume = {"name": "v", "emptyDir": {}}
    patch = {"volumes": [{"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}]}

    assert strategic({"volumes": [volume]}, patch) == {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}


def test_an_item_without_its_merge_key_is_a_bad_request() -> None:
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        strategic({"containers": []}, {"containers": [{"image": "1"}]})
