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


def test_the_node_plugin_may_write_nothing_but_slices_and_what_it_says_of_claims(manifests: Any) -> None:
    rules = manifests["ClusterRole", "dra-driver-kubelet-plugin"]["rules"]

    writers = {
        r for rule in rules if set(rule["verbs"]) - {"get", "list", "watch"} for r in rule["resources"]
    }

    assert {"resourceslices", "resourceclaims/status", "resourceclaims/driver"} == writers


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


def test_the_images_install_exactly_the_locked_versions_that_are_tested() -> None:
    texts = {
        name: (ROOT / name).read_text()
        for name in ("requirements.lock", "deploy/requirements.lock", "deploy/controller.lock")
    }
    tested, node, controller = (
        {line.split(" ")[0] for line in text.splitlines() if "==" in line} for text in texts.values()
    )

    assert node < controller < tested
    assert not any("://" in text for text in texts.values())


def _allowed(manifests: Any, kind: str, name: str) -> dict[str, set[str]]:
    """Verbs by resource."""
    found: dict[str, set[str]] = {}
    for rule in manifests[kind, name]["rules"]:
        for resource in rule["resources"]:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def test_the_controller_may_write_next_to_nothing(manifests: Any) -> None:
    reading = {"get", "list", "watch"}
    cluster = _allowed(manifests, "ClusterRole", "dra-driver-controller")
    own = _allowed(manifests, "Role", "controller")

    writes = {resource: verbs - reading for resource, verbs in cluster.items() if verbs - reading}

    assert {"events": {"create", "patch"}, "validatingwebhookconfigurations": {"patch"}} == writes
    assert {"leases": {"create", "get", "update"}, "secrets": {"create", "get", "update"}} == own
    rules = [
        *manifests["ClusterRole", "dra-driver-controller"]["rules"],
        *manifests["Role", "controller"]["rules"],
    ]
    named = {rule["resources"][0]: rule["resourceNames"] for rule in rules if "resourceNames" in rule}
    assert {
        "leases": ["controller"],
        "secrets": ["webhook-certificate"],
        "validatingwebhookconfigurations": ["dra-driver"],
    } == named


def test_the_deployments_environment_is_understood_by_the_controller(manifests: Any) -> None:
    from dra_driver.controller.flags import parse

    container = manifests["Deployment", "controller"]["spec"]["template"]["spec"]["containers"][0]
    environment = {e["name"]: e.get("value", "dra-driver") for e in container["env"]}
    settings = parse(container["args"][1:], environment)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert (f":{ports['https']}", f":{ports['http']}") == (settings.webhook_address, settings.metrics_address)
    (port,) = manifests["Service", settings.webhook_service]["spec"]["ports"]
    assert "https" == port["targetPort"]
    assert ("ValidatingWebhookConfiguration", settings.webhook_name) in manifests
    assert settings.taint_pools_without_driver is False


def test_the_service_and_the_budget_find_the_controllers_pods(manifests: Any) -> None:
    labels = manifests["Deployment", "controller"]["spec"]["template"]["metadata"]["labels"]

    assert labels == manifests["Service", "webhook"]["spec"]["selector"]
    assert labels == manifests["PodDisruptionBudget", "controller"]["spec"]["selector"]["matchLabels"]


def test_the_controller_finds_the_node_plugins_by_their_labels(manifests: Any) -> None:
    from dra_driver.controller.cluster import PLUGIN_LABELS

    labels = manifests["DaemonSet", "kubelet-plugin"]["spec"]["template"]["metadata"]["labels"]

    assert set(PLUGIN_LABELS.split(",")) <= {f"{name}={value}" for name, value in labels.items()}


def test_tainting_pools_is_an_option_with_rights_of_its_own() -> None:
    found = {(m["kind"], m["metadata"]["name"]): m for m in _script("manifests").render("taint-pools")}
    container = found["Deployment", "controller"]["spec"]["template"]["spec"]["containers"][0]

    assert {"name": "TAINT_POOLS_WITHOUT_DRIVER", "value": "yes"} in container["env"]
    allowed = _allowed(found, "ClusterRole", "dra-driver-controller-taints")
    assert {"devicetaintrules": {"list", "create", "delete"}} == allowed
