"""A real kubectl works without extra flags."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.resources import EVENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, SECRETS

Object = dict[str, Any]
Make = Callable[..., Object]
Kubectl = Callable[..., str]

IN_VENV = Path(sys.executable).parent / "kubectl"
BINARY = str(IN_VENV) if IN_VENV.exists() else shutil.which("kubectl")

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(BINARY is None, reason="there is no kubectl in .venv or on PATH"),
]


class KubectlError(Exception):
    """kubectl ended with an error; the text is what it said."""


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Kubectl:
    def run(*arguments: str, given: Any = None) -> str:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
        command = [str(BINARY), *arguments]
        done = subprocess.run(
            command,
            input=None if given is None else json.dumps(given),
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=90,
            env=environment,
            check=False,
        )
        if done.returncode:
            raise KubectlError(done.stderr)
        return done.stdout

    return run


def columns(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_get_prints_the_columns_of_a_real_server(
    server: ApiServer, kubectl: Kubectl, slice_of: Make, claim: Make, pod: Make
) -> None:
    server.store.create(RESOURCE_SLICES, slice_of())
    server.store.create(RESOURCE_CLAIMS, claim())
    server.store.create(PODS, pod())

    header, row = columns(kubectl("get", "resourceslices"))
    assert header == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert row[:4] == ["s", "node-a", "gpu.nvidia.com", "node-a/gpu"]
    assert columns(kubectl("get", "resourceclaims", "-A", "--no-headers"))[0][:3] == ["team", "c", "pending"]
    assert columns(kubectl("get", "pods", "-n", "team"))[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    wide = columns(kubectl("get", "po", "-n", "team", "-o", "wide", "--no-headers"))[0]
    assert wide[:4] == ["p", "0/1", "Pending", "0"]
    assert wide[-4:] == ["<none>"] * 4


@pytest.mark.parametrize(
    "kind",
    [
        "ns",
        "no",
        "po",
        "ev",
        "secrets",
        "leases",
        "resourceslices",
        "resourceclaims.v1beta2.resource.k8s.io",
        "resourceclaimtemplates",
        "deviceclasses",
        "validatingwebhookconfigurations",
    ],
)
def test_every_kind_can_be_listed(kubectl: Kubectl, kind: str) -> None:
    listed = json.loads(kubectl("get", kind, "-A", "-o", "json"))

    assert isinstance(listed["items"], list)


def test_selectors_and_outputs_work(server: ApiServer, kubectl: Kubectl, slice_of: Make, claim: Make) -> None:
    server.store.create(RESOURCE_SLICES, slice_of("a", "node-a"))
    server.store.create(RESOURCE_SLICES, slice_of("b", "node-b"))
    server.store.create(RESOURCE_CLAIMS, claim(labels={"app": "x"}))

    by_node = kubectl("get", "resourceslices", "--field-selector", "spec.nodeName=node-b", "-o", "name")
    by_label = kubectl(
        "get", "resourceclaims", "-A", "-l", "app=x", "-o", "jsonpath={.items[*].metadata.name}"
    )
    as_yaml = kubectl("get", "resourceslice", "a", "-o", "yaml")
    sorted_by = kubectl("get", "resourceslices", "--sort-by=.spec.nodeName", "--no-headers")

    assert by_node == "resourceslice.resource.k8s.io/b\n"
    assert by_label == "c"
    assert "kind: ResourceSlice\n" in as_yaml
    assert [row[0] for row in columns(sorted_by)] == ["a", "b"]


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl, pod: Make) -> None:
    body = pod()
    changed = pod(containers=[{"name": "main", "image": "app:2"}])

    outputs = [kubectl("apply", "-f", "-", given=given) for given in (body, body, changed)]

    assert outputs == ["pod/p created\n", "pod/p unchanged\n", "pod/p configured\n"]
    image = kubectl("get", "pod", "p", "-n", "team", "-o", "jsonpath={.spec.containers[*].image}")
    assert image == "app:2"


TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]},
}
APPLIED = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
    },
    {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE}},
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "spec": {"taint": {"key": "example.com/k", "effect": "None"}},
    },
    {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}]}},
    },
    {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}},
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "me"}},
]


@pytest.mark.parametrize("manifest", APPLIED, ids=lambda manifest: manifest["kind"])
@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client", "server"])
def test_apply_knows_every_kind_that_the_controller_needs(
    kubectl: Kubectl, manifest: Object, way: tuple[str, ...]
) -> None:
    manifest = {**manifest, "metadata": {"name": "x", "namespace": "team"}}
    if manifest["kind"] == "DeviceTaintRule":
        del manifest["metadata"]["namespace"]
    kubectl("apply", *way, "-f", "-", given=manifest)

    manifest["metadata"]["labels"] = {"a": "b"}
    kubectl("apply", *way, "-f", "-", given=manifest)

    listed = kubectl("get", manifest["kind"], "-n", "team", "-l", "a=b", "-o", "name")
    assert listed.strip().endswith("/x")


def test_apply_on_the_server_takes_over_from_the_client_and_meets_conflicts(
    kubectl: Kubectl, pod: Make
) -> None:
    kubectl("apply", "-f", "-", given=pod())
    changed = pod(containers=[{"name": "main", "image": "app:2"}])

    assert kubectl("apply", "--server-side", "-f", "-", given=changed) == "pod/p serverside-applied\n"
    with pytest.raises(KubectlError, match='conflict with "kubectl": '):
        kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", given=pod())


def test_unknown_fields_are_refused_before_anything_is_made(kubectl: Kubectl, claim: Make) -> None:
    body = claim()
    body["spec"]["surplus"] = True

    with pytest.raises(KubectlError, match="strict decoding error: unknown field"):
        kubectl("apply", "-f", "-", given=body)


def test_create_label_annotate_patch_and_delete(server: ApiServer, kubectl: Kubectl, pod: Make) -> None:
    server.store.create(PODS, pod())

    assert kubectl("create", "namespace", "other") == "namespace/other created\n"
    assert kubectl("create", "secret", "generic", "s", "--from-literal=a=b") == "secret/s created\n"
    kubectl("label", "pod", "p", "-n", "team", "a=b")
    kubectl("annotate", "pod", "p", "-n", "team", "a=b")
    kubectl("patch", "pod", "p", "-n", "team", "-p", '{"metadata":{"labels":{"strategic":"1"}}}')
    kubectl("patch", "pod", "p", "-n", "team", "--type=merge", "-p", '{"metadata":{"labels":{"merge":"1"}}}')
    json_patch = '[{"op":"add","path":"/metadata/labels/json","value":"1"}]'
    kubectl("patch", "pod", "p", "-n", "team", "--type=json", "-p", json_patch)

    assert server.store.get(SECRETS, "s", "default")["data"] == {"a": "Yg=="}
    metadata = server.store.get(PODS, "p", "team")["metadata"]
    assert metadata["labels"] == {"a": "b", "strategic": "1", "merge": "1", "json": "1"}
    assert metadata["annotations"] == {"a": "b"}
    assert kubectl("delete", "pod", "p", "-n", "team").startswith('pod "p" deleted')
    assert kubectl("delete", "namespace", "other", "team").count("deleted") == 2


def test_describe_shows_objects_with_their_events(
    server: ApiServer, kubectl: Kubectl, slice_of: Make, claim: Make, pod: Make, node: Object
) -> None:
    made = server.store.create(PODS, pod(nodeName="node-a"))
    server.store.create(RESOURCE_CLAIMS, claim())
    server.store.create(RESOURCE_SLICES, slice_of())
    about = {"kind": "Pod", "namespace": "team", "name": "p", "uid": made["metadata"]["uid"]}
    event = {"metadata": {"name": "e", "namespace": "team"}, "involvedObject": about, "type": "Warning"}
    server.store.create(EVENTS, {**event, "reason": "FailedScheduling", "message": "no GPU is left"})

    assert "no GPU is left" in kubectl("describe", "pod", "p", "-n", "team")
    assert "Device Class Name:  gpu.nvidia.com" in kubectl("describe", "resourceclaim", "c", "-n", "team")
    assert "gpu-0" in kubectl("describe", "resourceslice", "s")
    assert "Non-terminated Pods:          (1 in total)" in kubectl("describe", "node", "node-a")


def test_events_are_listed(server: ApiServer, kubectl: Kubectl) -> None:
    about = {"kind": "Pod", "namespace": "team", "name": "p"}
    event = {"metadata": {"name": "e", "namespace": "team"}, "involvedObject": about, "type": "Warning"}
    server.store.create(EVENTS, {**event, "reason": "FailedScheduling", "message": "no GPU is left"})

    assert columns(kubectl("get", "events", "-n", "team"))[0] == [
        "LAST",
        "SEEN",
        "TYPE",
        "REASON",
        "OBJECT",
        "MESSAGE",
    ]
    assert "pod/p" in kubectl("get", "events", "-n", "team")
    assert "no GPU is left" in kubectl("events", "-n", "team")


def test_wait_sees_conditions_fields_and_deletion(server: ApiServer, kubectl: Kubectl, pod: Make) -> None:
    server.store.create(PODS, pod())
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    server.store.patch(PODS, "p", {"status": status}, namespace="team", subresource="status")

    assert "condition met" in kubectl("wait", "pod/p", "-n", "team", "--for=condition=Ready", "--timeout=90s")
    jsonpath = "--for=jsonpath={.status.phase}=Running"
    assert "condition met" in kubectl("wait", "pod/p", "-n", "team", jsonpath, "--timeout=90s")
    server.store.delete(PODS, "p", namespace="team")
    kubectl("wait", "pod/p", "-n", "team", "--for=delete", "--timeout=90s")


def test_watch_prints_changes_as_they_come(
    server: ApiServer, kubeconfig: Path, tmp_path: Path, claim: Make
) -> None:
    server.store.create(RESOURCE_CLAIMS, claim("first"))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    command = [str(BINARY), "get", "resourceclaims", "-n", "team", "-w", "--no-headers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().split()[:2] == ["first", "pending"]
            server.store.create(RESOURCE_CLAIMS, claim("second"))
            assert process.stdout.readline().split()[:2] == ["second", "pending"]
        finally:
            process.terminate()


def test_explain_knows_the_fields(kubectl: Kubectl) -> None:
    assert "deviceClassName\t<string>" in kubectl("explain", "resourceclaim.spec.devices.requests.exactly")


def test_edit_sends_what_was_changed(
    server: ApiServer, kubectl: Kubectl, node: Object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    change = 's/^  name: node-a/  labels: {edited: "yes"}\\n  name: node-a/'
    editor.write_text(f"#!/bin/sh\nsed -i '{change}' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))

    assert kubectl("edit", "node", "node-a") == "node/node-a edited\n"
    assert server.store.get(NODES, "node-a")["metadata"]["labels"] == {"edited": "yes"}


def test_a_server_side_dry_run_stores_nothing(server: ApiServer, kubectl: Kubectl, pod: Make) -> None:
    output = kubectl("apply", "--dry-run=server", "-f", "-", given=pod())

    assert output == "pod/p created (server dry run)\n"
    assert server.store.list(PODS) == []


def test_a_node_is_drained(server: ApiServer, kubectl: Kubectl, node: Object, pod: Make) -> None:
    server.store.create(PODS, pod(nodeName="node-a", terminationGracePeriodSeconds=0))

    output = kubectl("drain", "node-a", "--force", "--timeout=90s")

    assert "node/node-a drained" in output
    assert server.store.get(NODES, "node-a")["spec"]["unschedulable"] is True
    assert server.store.list(PODS) == []
