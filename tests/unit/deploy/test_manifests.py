"""What `kubectl apply -k deploy/` installs, held against what the plugin does and what users rely on."""

import importlib.util
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

ROOT = Path(__file__).parents[3]


def _script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Rendered objects by kind and name."""
    return {(m["kind"], m["metadata"]["name"]): m for m in _script("manifests").render()}


def test_every_object_fits_the_schemas_of_1_37_and_a_wrong_one_would_not(manifests: Any) -> None:
    assert _script("manifests").main() == 0
    broken = {**manifests["DeviceClass", "gpu.nvidia.com"], "spec": {"selector": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.37", strict=True)


def test_the_policy_names_the_service_account_that_the_daemonset_runs_as(manifests: Any) -> None:
    daemonset = manifests["DaemonSet", "kubelet-plugin"]
    account = daemonset["spec"]["template"]["spec"]["serviceAccountName"]
    username = f"system:serviceaccount:{daemonset['metadata']['namespace']}:{account}"

    (condition,) = manifests["ValidatingAdmissionPolicy", "dra-driver-resourceslices"]["spec"][
        "matchConditions"
    ]

    assert f'request.userInfo.username == "{username}"' == condition["expression"]
    assert ("ServiceAccount", account) in manifests


def test_the_policy_covers_every_version_and_every_write(manifests: Any) -> None:
    spec = manifests["ValidatingAdmissionPolicy", "dra-driver-resourceslices"]["spec"]

    (rule,) = spec["matchConstraints"]["resourceRules"]

    assert (["*"], {"CREATE", "UPDATE", "DELETE"}) == (rule["apiVersions"], set(rule["operations"]))
    assert spec["failurePolicy"] == "Fail"
    binding = manifests["ValidatingAdmissionPolicyBinding", "dra-driver-resourceslices"]["spec"]
    assert ["Deny"] == binding["validationActions"]


def test_the_node_plugin_may_write_nothing_but_slices(manifests: Any) -> None:
    rules = manifests["ClusterRole", "dra-driver-kubelet-plugin"]["rules"]

    writers = {
        r for rule in rules if set(rule["verbs"]) - {"get", "list", "watch"} for r in rule["resources"]
    }

    assert {"resourceslices"} == writers


def test_the_classes_select_as_the_official_drivers_do(manifests: Any) -> None:
    selectors = {
        name: [s["cel"]["expression"] for s in manifests["DeviceClass", name]["spec"]["selectors"]]
        for name in ("gpu.nvidia.com", "mig.nvidia.com")
    }

    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{}'"
    assert {
        "gpu.nvidia.com": [expression.format("gpu")],
        "mig.nvidia.com": [expression.format("mig")],
    } == selectors
    assert "nvidia.com/gpu" == manifests["DeviceClass", "gpu.nvidia.com"]["spec"]["extendedResourceName"]


def test_socket_directories_are_mounted_where_the_kubelet_sees_them(manifests: Any) -> None:
    pod = manifests["DaemonSet", "kubelet-plugin"]["spec"]["template"]["spec"]
    on_host = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}

    mounts = {m["mountPath"]: on_host[m["name"]] for m in pod["containers"][0]["volumeMounts"]}

    for path in ("/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi"):
        assert path == mounts[path]


def test_the_daemonsets_environment_is_understood_by_the_plugin(manifests: Any) -> None:
    from dra_driver.node.flags import parse

    container = manifests["DaemonSet", "kubelet-plugin"]["spec"]["template"]["spec"]["containers"][0]
    environment = {e["name"]: e.get("value", "node-a") for e in container["env"]}

    settings = parse(container["args"][1:], environment)

    assert (Path("/host"), ":8080", "json", "node-a") == (
        settings.host_root,
        settings.metrics_address,
        settings.log_format,
        settings.node_name,
    )


def test_the_image_installs_exactly_the_locked_versions_that_are_tested() -> None:
    locks = [
        {line.split(" ")[0] for line in (ROOT / lock).read_text().splitlines() if "==" in line}
        for lock in ("requirements.lock", "deploy/requirements.lock")
    ]

    assert locks[1] < locks[0]
    assert not any(
        "://" in (ROOT / lock).read_text() for lock in ("requirements.lock", "deploy/requirements.lock")
    )
