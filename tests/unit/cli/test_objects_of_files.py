"""What can be read from files, and how everything else is refused: one line that names the file."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.cli.objects import read_objects
from dra_driver.cli.worlds import completed, merged, sorted_out
from dra_driver.errors import UsageError


def _read(commands: Any, text: str) -> Any:
    return read_objects([commands.write(text=text)])


def _refusal(commands: Any, text: str) -> str:
    with pytest.raises(UsageError) as refused:
        _read(commands, text)
    message = str(refused.value)
    assert "\n" not in message
    return message.removeprefix(f"{commands.directory}/1.yaml")


def test_lists_documents_and_directories_are_taken_apart(commands: Any, make: Any) -> None:
    (commands.directory / "inner").mkdir()
    listed = {"apiVersion": "v1", "kind": "List", "items": [make.claim("a"), make.pod("b")]}
    (commands.directory / "inner" / "list.json").write_text(json.dumps(listed))
    (commands.directory / "inner" / "two.yml").write_text("---\n---\n" + json.dumps(make.claim("c")))
    (commands.directory / "inner" / "notes.txt").write_text("not read")

    found = read_objects([str(commands.directory)])

    assert ["a", "b", "c"] == [one["metadata"]["name"] for one in found]


def test_items_of_a_typed_list_get_its_kind(commands: Any, make: Any) -> None:
    claim = {key: value for key, value in make.claim("a").items() if key not in {"kind", "apiVersion"}}
    listed = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimList", "items": [claim]}

    (found,) = read_objects([commands.write(listed)])

    assert ("resource.k8s.io/v1", "ResourceClaim") == (found["apiVersion"], found["kind"])


def test_older_versions_are_read_as_v1(commands: Any, make: Any) -> None:
    old = make.claim("a", {"name": "gpu", "deviceClassName": "gpu.nvidia.com"})

    (found,) = read_objects([commands.write({**old, "apiVersion": "resource.k8s.io/v1beta1"})])

    assert [make.request()] == found["spec"]["devices"]["requests"]


@pytest.mark.parametrize("address", ["0000:07:00.0", "0000:1b:00.0", "12:30", "2026-11-30"])
def test_what_kubectl_takes_for_text_is_text(commands: Any, make: Any, address: str) -> None:
    text = yaml.safe_dump(make.slice("n1", make.device("a", pciBusID="PLACE"))).replace("PLACE", address)

    (found,) = read_objects([commands.write(text=text)])

    assert {"string": address} == found["spec"]["devices"][0]["attributes"]["pciBusID"]


def test_times_are_text(commands: Any, make: Any) -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: n, creationTimestamp: 2026-01-01T00:00:00Z}\n"

    (found,) = _read(commands, text)

    assert "2026-01-01T00:00:00Z" == found["metadata"]["creationTimestamp"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", ", line 2, column 1: expected YAML: did not find expected node content"),
        ("- a\n", ": expected objects with apiVersion and kind, found something else"),
        ("hello", ": expected objects with apiVersion and kind, found something else"),
        (
            "a: !!python/object:os.system x",
            ", line 1, column 4: expected YAML: could not determine a constructor",
        ),
        ("{kind: Pod, apiVersion: v1}", ": Pod without a name: metadata.name is missing"),
        ("{kind: Pod, apiVersion: v1, metadata: {name: p}}", ": Pod p: spec.containers is missing"),
        (
            "{kind: Pod, apiVersion: v1, metadata: [], spec: 1}",
            ": Pod without a name: json: cannot unmarshal",
        ),
        (
            "{kind: Node, apiVersion: v1, metadata: {name: n}, spec: {taints: [{}]}}",
            ": Node n: spec.taints[0].key is missing",
        ),
        (
            "{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: 3}",
            ": Deployment d: spec.template is missing",
        ),
        (
            "{kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {replicas: many, template: {}}}",
            ": Deployment d: spec.replicas is no number of Pods",
        ),
        (
            "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1alpha3, metadata: {name: c}}",
            ": ResourceClaim c is of resource.k8s.io/v1alpha3, which is not known",
        ),
        ("&a [*a]", ": expected a manifest, found one that nests too deeply"),
        ("kind: x\na: &a {b: *a}", ": expected a manifest, found one that nests too deeply"),
        (
            "kind: x\na: " + "[" * 5000 + "]" * 5000,
            ", line 2, column 1003: expected YAML: exceeded maximum nesting depth",
        ),
        (
            '{"kind": "x", "a": ' + "[" * 500 + "]" * 500 + "}",
            ": expected a manifest, found one that nests too deeply",
        ),
    ],
)
def test_what_is_no_manifest_is_refused_with_its_place(commands: Any, text: str, message: str) -> None:
    assert _refusal(commands, text).startswith(message)


def test_aliases_that_grow_without_bound_are_refused(commands: Any) -> None:
    lines = ["kind: x", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{index}: &a{index} [{', '.join([f'*a{index - 1}'] * 10)}]" for index in range(1, 10)]

    assert ": expected a manifest, found aliases that grow without bound" == _refusal(
        commands, "\n".join(lines)
    )


def test_an_object_that_an_api_server_refuses_is_refused_with_the_field(commands: Any, make: Any) -> None:
    claim = make.claim("c", {"name": "gpu", "deviceClassName": "gpu.nvidia.com"})

    message = _refusal(commands, json.dumps(claim))

    assert message.startswith(": an API server refuses ResourceClaim c: ")
    assert 'unknown field "spec.devices.requests[0].deviceClassName"' in message
    assert message.endswith("(dra-driver lint says more)")


def test_a_selector_that_does_not_compile_is_refused_on_one_line(commands: Any, make: Any) -> None:
    claim = make.claim("c", make.request('device.attributes["memory"].quantity().value() >= 24'))

    message = _refusal(commands, json.dumps(claim))

    assert "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value" in message
    assert "found no matching overload for 'quantity'" in message


@pytest.mark.parametrize(
    "kind", ["ResourceClaim", "ResourceSlice", "DeviceClass", "ResourceClaimTemplate", "Pod"]
)
@pytest.mark.parametrize("junk", [None, 1, "x", [], {}, [1], {"a": 1}, {1: 2}, {"spec": {"devices": 7}}])
@pytest.mark.parametrize("version", ["v1", "resource.k8s.io/v1", "resource.k8s.io/v1beta1"])
def test_no_shape_is_more_than_refused(commands: Any, kind: str, junk: Any, version: str) -> None:
    for body in ({"metadata": junk}, {"metadata": {"name": "a"}, "spec": junk}, {"status": junk}):
        document = {"apiVersion": version, "kind": kind, **body}
        ran = commands.run("explain", "-f", commands.write(document))
        complaints = [line for line in ran.err.splitlines() if not line.startswith("note:")]
        # An empty claim is valid, and waits for nodes.
        assert (ran.code, len(complaints)) in {(2, 1), (1, 0)}


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.yaml", "does not exist"), ("\0", "cannot be read: embedded null byte")],
)
def test_a_file_that_cannot_be_read_is_named(commands: Any, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_objects([f"{commands.directory}/{name}"])


def test_a_directory_without_manifests_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no YAML or JSON files in"):
        read_objects([str(tmp_path)])


def test_what_goes_without_saying_is_said(make: Any) -> None:
    objects, notes = completed(sorted_out([make.slice("n1", make.device("a"))], "default"))

    assert ["gpu.nvidia.com", "mig.nvidia.com"] == [one["metadata"]["name"] for one in objects["DeviceClass"]]
    assert ["n1"] == [node["metadata"]["name"] for node in objects["Node"]]
    assert 2 == len(notes)


def test_objects_are_laid_over_others_of_the_same_name(make: Any) -> None:
    below = sorted_out([make.claim("a"), make.claim("b")], "team")
    above = sorted_out([make.claim("b", make.request(count=2)), make.pod("p")], "team")

    laid = merged(below, above)

    assert [1, 2] == [
        one["spec"]["devices"]["requests"][0]["exactly"].get("count", 1) for one in laid["ResourceClaim"]
    ]
    assert {"team"} == {one["metadata"]["namespace"] for kind in laid.values() for one in kind}
