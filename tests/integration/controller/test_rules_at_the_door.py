"""Each bad example of the lint rules is refused or warned about when it is applied, in the rule's words."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.controller.config import API_VERSION, KIND
from dra_driver.kube.resources import DEVICE_CLASSES, NAMESPACES, RESOURCE_SLICES
from dra_driver.lint import RULES, lint
from dra_driver.lint.pages import example

KUBECTL = Path(sys.executable).parent / "kubectl"
pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(not KUBECTL.exists(), reason="there is no kubectl in .venv"),
]
Apply = Callable[[str, str], str]

# What is about texts, of which an API server sees nothing.
OF_TEXTS = {"unreadable", "not-an-object", "not-checked", "duplicate-key"}
# What an API server refuses before it asks anybody, and its words.
BY_THE_SERVER = {
    "invalid-object": "a lowercase RFC 1123 label must consist of lower case alphanumeric characters",
    "version-shape": 'unknown field "spec.devices.requests[0].deviceClassName"',
    "selector-level": 'unknown field "spec.devices.requests[0].exactly.selectors[0].expression"',
    "old-claim-source": 'unknown field "spec.resourceClaims[0].source"',
    "constraint-domain": "a fully qualified name must be a domain and a name separated by a slash",
    "selector-does-not-compile": "Syntax error",
    "quantity-comparison": "found no matching overload for '_>=_'",
    "unknown-pod-claim": "must be one of the names in pod.spec.resourceClaims: gpu",
    "admin-namespace": "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label",
}
# Words that differ, since there is a cluster instead of files.
IN_A_CLUSTER = {
    "unknown-class": "there is no DeviceClass gpu.nvidia.co; the cluster has gpu.nvidia.com, ",
    "missing-claim": "there is no ResourceClaimTemplate one-gpu in namespace bad-missing-claim",
}
CODES = [rule.code for rule in RULES if rule.code not in OF_TEXTS]


@pytest.fixture(scope="module")
def apply(make_door: Any, until: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apply]:
    """kubectl, with a webhook that shows information too; what it prints on standard error."""
    directory = tmp_path_factory.mktemp("door")
    shown = {rule.code: "warn" for rule in RULES if rule.severity == "info"}
    policy = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "webhook": {"rules": {**shown, "template-not-shared": "warn"}},
    }
    (directory / "policy.yaml").write_text(yaml.safe_dump(policy))
    door = make_door(directory)
    door.register()
    selector = {"cel": {"expression": "device.driver == 'nics.example.com'"}}
    other = {"metadata": {"name": "nics.example.com"}, "spec": {"selectors": [selector]}}
    door.server.store.create(DEVICE_CLASSES, other)
    until(door.controller("--config", str(directory / "policy.yaml")).ready)

    def kubectl(text: str, namespace: str, *arguments: str) -> str:
        command = [str(KUBECTL), "--kubeconfig", str(door.kubeconfig), "apply", "-n", namespace, "-f", "-"]
        done = subprocess.run(
            [*command, *arguments], input=text, capture_output=True, text=True, timeout=90, check=False
        )
        return " ".join(done.stderr.split())

    def run(code: str, kind: str) -> str:
        namespace = f"{kind}-{code}"
        door.server.store.create(NAMESPACES, {"metadata": {"name": namespace}})
        slices, text = documents(code, kind)
        for one in slices:
            door.server.store.create(RESOURCE_SLICES, one)

        def known(*, slices: bool) -> None:
            """Whether the webhook has the slices is seen from what it says of the bad example, which depends on them."""
            said = kubectl(documents(code, "bad")[1], namespace, "--dry-run=server")
            assert (f"[{code}]" in said) is slices

        try:
            if slices:
                until(lambda: known(slices=True))
            return kubectl(text, namespace)
        finally:
            for one in slices:
                door.server.store.delete(RESOURCE_SLICES, one["metadata"]["name"])
            if slices:
                until(lambda: known(slices=False))

    yield run
    door.close()


@pytest.mark.parametrize("code", CODES)
def test_a_bad_example_is_refused_or_warned_about_in_the_rules_words(apply: Apply, code: str) -> None:
    text = example_of(code, "bad")

    said = apply(code, "bad")

    if code in BY_THE_SERVER:
        assert BY_THE_SERVER[code] in said
        return
    finding = next(found for found in lint([("x", text.encode())]) if found.code == code)
    assert IN_A_CLUSTER.get(code, finding.message) in said
    assert f"[{code}]" in said
    is_workload = "kind: ResourceClaim\n" not in text and "kind: DeviceClass" not in text
    assert (finding.severity == "error" and not is_workload) == (
        'admission webhook "claims.gpu.nvidia.com" denied' in said
    )


@pytest.mark.parametrize("code", [code for code in CODES if code != "admin-namespace"])
def test_a_good_example_is_taken_without_a_word(apply: Apply, code: str) -> None:
    assert apply(code, "good") == ""


def documents(code: str, kind: str) -> tuple[list[Any], str]:
    """The slices of the example, and the rest of it, with what Pods name before the Pods."""
    found = list(yaml.safe_load_all(example_of(code, kind)))
    rest = [one for one in reversed(found) if one["kind"] != "ResourceSlice"]
    return [one for one in found if one["kind"] == "ResourceSlice"], yaml.safe_dump_all(rest)


def example_of(code: str, kind: str) -> str:
    rule = next(rule for rule in RULES if rule.code == code)
    text = example(rule, kind)
    assert text is not None
    return text
