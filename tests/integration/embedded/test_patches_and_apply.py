"""All ways to change a part of an object, over the wire."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dra_driver.kube.client import Client
from dra_driver.kube.errors import BadRequestError, InvalidError, NotFoundError, ObjectConflictError
from dra_driver.kube.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

Object = dict[str, Any]
Make = Callable[..., Object]

APPLY = "application/apply-patch+yaml"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def apply(client: Client, body: Object, manager: str = "one", *, force: bool = False) -> Object:
    name = body["metadata"]["name"]
    return client.patch(RESOURCE_SLICES, name, body, content_type=APPLY, field_manager=manager, force=force)


def managers(obj: Object) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]]


def test_a_merge_patch_merges_maps_and_deletes_with_null(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}})

    patched = client.patch(NODES, "n", {"metadata": {"labels": {"a": None, "c": "3"}}})

    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}


def test_a_json_patch_that_does_not_fit_is_refused(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n", "labels": {"a": "1"}}})
    good = [{"op": "test", "path": "/metadata/labels/a", "value": "1"}]
    good.append({"op": "add", "path": "/metadata/labels/x~1y", "value": "2"})

    patched = client.patch(NODES, "n", good, content_type=JSON)

    assert patched["metadata"]["labels"] == {"a": "1", "x/y": "2"}
    for bad in ([{**good[0], "value": "9"}], [{"op": "remove", "path": "/metadata/labels/nope"}]):
        with pytest.raises(InvalidError, match="the server rejected our request"):
            client.patch(NODES, "n", bad, content_type=JSON)


def test_a_strategic_patch_finds_list_items_by_their_key(client: Client, pod: Make) -> None:
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    client.create(PODS, pod(containers=containers))

    body = {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}
    patched = client.patch(PODS, "p", body, namespace="team", content_type=STRATEGIC)

    assert [(entry["name"], entry["image"]) for entry in patched["spec"]["containers"]] == [
        ("a", "a:1"),
        ("b", "b:2"),
    ]


def test_a_patch_from_an_old_version_conflicts(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n"}})

    with pytest.raises(ObjectConflictError):
        client.patch(NODES, "n", {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}})


def test_a_patch_of_an_unknown_kind_is_refused(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n"}})

    with pytest.raises(BadRequestError) as caught:
        client.patch(NODES, "n", {}, content_type="application/json")

    assert caught.value.status == 415


def test_a_patch_cannot_rename(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n"}})

    with pytest.raises(BadRequestError, match="does not match the name on the URL"):
        client.patch(NODES, "n", {"metadata": {"name": "m"}})


def test_an_update_is_noted_with_its_manager(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n"}})

    patched = client.patch(NODES, "n", {"metadata": {"labels": {"a": "b"}}}, field_manager="me")

    [entry] = [entry for entry in patched["metadata"]["managedFields"] if entry["manager"] == "me"]
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Update", "v1", "FieldsV1")
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


def test_an_apply_creates_and_owns_what_it_sends(client: Client, slice_of: Make) -> None:
    made = apply(client, slice_of())

    [entry] = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:devices": {},
            "f:driver": {},
            "f:nodeName": {},
            "f:pool": {"f:generation": {}, "f:name": {}, "f:resourceSliceCount": {}},
        }
    }


def test_applying_the_same_again_changes_nothing(client: Client, slice_of: Make) -> None:
    made = apply(client, slice_of())

    assert apply(client, slice_of()) == made


def test_two_managers_conflict_where_their_values_differ(client: Client, slice_of: Make) -> None:
    devices = [{"name": "gpu-0"}]
    apply(client, slice_of(devices=devices))
    other = slice_of(devices=devices)
    other["spec"]["pool"]["generation"] = 2

    with pytest.raises(ObjectConflictError) as caught:
        apply(client, other, "two")

    assert 'Apply failed with 1 conflict: conflict with "one": .spec.pool.generation' in str(caught.value)
    assert caught.value.details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".spec.pool.generation",
            }
        ]
    }


def test_a_quantity_in_another_notation_is_a_conflict_as_on_a_real_server(
    client: Client, slice_of: Make
) -> None:
    apply(client, slice_of())

    with pytest.raises(ObjectConflictError, match=r'conflict with "one": .spec.devices'):
        apply(client, slice_of(), "two")


def test_force_takes_the_fields_over(client: Client, slice_of: Make) -> None:
    apply(client, slice_of())
    other = slice_of()
    other["spec"]["pool"]["generation"] = 2

    taken = apply(client, other, "two", force=True)

    owned = {entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in taken["metadata"]["managedFields"]}
    assert taken["spec"]["pool"]["generation"] == 2
    assert "f:generation" not in owned["one"]["f:pool"]
    assert "f:generation" in owned["two"]["f:pool"]


def test_what_is_not_applied_any_more_goes_unless_somebody_else_owns_it(
    client: Client, slice_of: Make
) -> None:
    plain = slice_of(devices=[{"name": "gpu-0"}])
    apply(client, {**plain, "metadata": {"name": "s", "labels": {"mine": "1", "ours": "1"}}})
    apply(client, {**plain, "metadata": {"name": "s", "labels": {"ours": "1"}}}, "two")

    left = apply(client, plain)

    assert left["metadata"]["labels"] == {"ours": "1"}
    assert managers(left) == [("one", "Apply"), ("two", "Apply")]


def test_drivers_apply_to_their_own_devices_of_a_claims_status(client: Client, claim: Make) -> None:
    client.create(RESOURCE_CLAIMS, claim())
    results = [{"request": "gpu", "driver": f"{name}.com", "pool": "p", "device": "d"} for name in ("a", "b")]
    allocation = {"allocation": {"devices": {"results": results}}}
    client.patch(RESOURCE_CLAIMS, "c", {"status": allocation}, namespace="team", subresource="status")

    for name in ("a", "b"):
        device = {"driver": f"{name}.com", "pool": "p", "device": "d", "data": {"from": name}}
        body = {**claim(), "status": {"devices": [device]}}
        body.pop("spec")
        applied = client.patch(
            RESOURCE_CLAIMS,
            "c",
            body,
            namespace="team",
            subresource="status",
            content_type=APPLY,
            field_manager=name,
        )

    assert [(entry["driver"], entry["data"]) for entry in applied["status"]["devices"]] == [
        ("a.com", {"from": "a"}),
        ("b.com", {"from": "b"}),
    ]


def test_an_apply_needs_a_manager_and_no_managed_fields(client: Client, slice_of: Make) -> None:
    with pytest.raises(InvalidError, match="fieldManager: Required value: is required for apply patch"):
        client.patch(RESOURCE_SLICES, "s", slice_of(), content_type=APPLY)
    body = slice_of()
    body["metadata"]["managedFields"] = [{}]
    with pytest.raises(BadRequestError, match=r"metadata.managedFields must be nil"):
        apply(client, body)


def test_an_apply_of_a_status_creates_nothing(client: Client, claim: Make) -> None:
    with pytest.raises(NotFoundError):
        client.patch(
            RESOURCE_CLAIMS,
            "c",
            claim(),
            namespace="team",
            subresource="status",
            content_type=APPLY,
            field_manager="x",
        )


def test_patches_at_the_same_time_are_all_done(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n"}})
    patches = [{"metadata": {"labels": {f"l{number}": "x"}}} for number in range(40)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda patch: client.patch(NODES, "n", patch), patches))

    assert set(client.get(NODES, "n")["metadata"]["labels"]) == {f"l{number}" for number in range(40)}


def test_applies_of_a_new_object_at_the_same_time_are_all_done(client: Client) -> None:
    def apply_label(number: int) -> Object:
        name, label = f"n{number % 10}", {f"l{number // 10}": "x"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": label}}
        return client.patch(NODES, name, body, content_type=APPLY, field_manager=f"m{number // 10}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(apply_label, sorted(range(80), key=lambda number: number % 10)))

    labels = [set(node["metadata"]["labels"]) for node in client.list(NODES)["items"]]
    assert labels == [{f"l{number}" for number in range(8)}] * 10


def test_of_updates_at_the_same_time_one_wins(client: Client) -> None:
    made = client.create(NODES, {"metadata": {"name": "n"}})

    def update(number: int) -> bool:
        body = copy.deepcopy(made)
        body["metadata"]["labels"] = {"by": str(number)}
        try:
            client.replace(NODES, body)
        except ObjectConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(update, range(8))).count(True) == 1
