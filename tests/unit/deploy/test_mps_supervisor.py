"""What `kubectl apply -k deploy/mps` installs, held against what MPS daemons need."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def daemonsets() -> dict[str, Any]:
    """The specs of all DaemonSets, by name."""
    spec = importlib.util.spec_from_file_location("manifests", ROOT / "scripts" / "manifests.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return {m["metadata"]["name"]: m["spec"] for m in script.everything() if m["kind"] == "DaemonSet"}


def mounts(spec: Any) -> dict[str, Any]:
    pod = spec["template"]["spec"]
    on_host = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    return {m["mountPath"]: (on_host[m["name"]], m) for m in pod["containers"][0]["volumeMounts"]}


def test_the_supervisor_sees_the_node_as_the_plugin_does(daemonsets: Any) -> None:
    mine, plugins = mounts(daemonsets["mps-supervisor"]), mounts(daemonsets["kubelet-plugin"])

    assert {path: place[0] for path, place in mine.items()}.items() <= {
        path: place[0] for path, place in plugins.items()
    }.items()


def test_shared_memory_of_daemons_reaches_the_node(daemonsets: Any) -> None:
    _, mount = mounts(daemonsets["mps-supervisor"])["/var/lib/kubelet/plugins"]

    assert "Bidirectional" == mount["mountPropagation"]


def test_nothing_but_a_person_ends_the_daemons(daemonsets: Any) -> None:
    spec = daemonsets["mps-supervisor"]

    assert "OnDelete" == spec["updateStrategy"]["type"]
    assert "limits" not in spec["template"]["spec"]["containers"][0]["resources"]


def test_it_has_no_rights_in_the_api(daemonsets: Any) -> None:
    pod = daemonsets["mps-supervisor"]["template"]["spec"]

    assert (False, None) == (pod["automountServiceAccountToken"], pod.get("serviceAccountName"))
