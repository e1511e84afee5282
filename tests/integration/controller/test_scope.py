"""Whom the webhook is asked about, by deploy/webhook.yaml; and what it knows of what was applied a moment ago."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.errors import ApiError
from dra_driver.kube.errors import ServerError
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_driver.kube.resources import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS

Object = dict[str, Any]
Make = Callable[..., Object]
KUBECTL = Path(sys.executable).parent / "kubectl"
OTHER = {"device_class": "nics.example.com"}
OURS = {"driver": "gpu.nvidia.com", "parameters": {}}
PARTS = {"driver": "nics.example.com", "parameters": {}}
ASKED: dict[str, Callable[[Make], Object]] = {
    "our class": lambda claim: claim(),
    "a class that is nearly ours": lambda claim: claim(device_class="gpu.nvidia.co"),
    "our attribute": lambda claim: claim("device.attributes['gpu.nvidia.com'].x", **OTHER),
    "our configuration": lambda claim: claim(config=[{"opaque": OURS}], **OTHER),
    "our constraint": lambda claim: claim(constraints=[{"matchAttribute": "gpu.nvidia.com/x"}], **OTHER),
    "in an alternative": lambda claim: alternatives(claim, "nics.example.com", "mig.nvidia.com"),
}
PASSED_BY: dict[str, Callable[[Make], Object]] = {
    "another class": lambda claim: claim(**OTHER),
    "another driver's selector": lambda claim: claim("device.attributes['nics.example.com'].x", **OTHER),
    "another driver's configuration": lambda claim: claim(config=[{"opaque": PARTS}], **OTHER),
    "a constraint on what is common": lambda claim: claim(
        constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}], **OTHER
    ),
    "alternatives of others": lambda claim: alternatives(claim, "nics.example.com", "fpgas.example.com"),
    "the official driver's other part": lambda claim: claim(device_class="compute-domain-daemon.nvidia.com"),
    "AMD": lambda claim: claim(device_class="gpu.amd.com"),
}


def alternatives(claim: Make, *classes: str) -> Object:
    made = claim()
    wishes = [{"name": f"w{n}", "deviceClassName": name} for n, name in enumerate(classes)]
    made["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": wishes}]
    return made


def flat(obj: Object) -> Object:
    """A claim as v1beta1 has it."""
    requests = [{**request.pop("exactly", {}), **request} for request in obj["spec"]["devices"]["requests"]]
    devices = {**obj["spec"]["devices"], "requests": requests}
    return {**obj, "apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": devices}}


def in_template(obj: Object) -> Object:
    return {**obj, "kind": "ResourceClaimTemplate", "spec": {"spec": obj["spec"]}}


@pytest.fixture
def strict(door: Any) -> Any:
    """Webhooks with failurePolicy Fail, and nobody who answers: who is asked about is refused."""
    door.register()
    found = door.client.get(CONFIGURATIONS, "dra-driver")
    for hook in found["webhooks"]:
        hook["failurePolicy"] = "Fail"
    door.client.replace(CONFIGURATIONS, found)
    return door


def is_asked(door: Any, resource: Resource, obj: Object) -> bool:
    try:
        door.client.create(resource, obj)
    except ServerError:  # "failed calling webhook"
        return True
    return False


V1BETA1 = {
    resource: Resource(resource.group, "v1beta1", resource.plural, resource.kind, resource.namespaced)
    for resource in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
}


@pytest.mark.parametrize("name", [*ASKED, *PASSED_BY])
def test_a_claim_is_asked_about_in_every_version_if_it_mentions_the_driver(
    strict: Any, claim: Make, name: str
) -> None:
    make = {**ASKED, **PASSED_BY}[name]
    template = in_template(make(claim))

    answers = {
        is_asked(strict, RESOURCE_CLAIMS, make(claim)),
        is_asked(strict, RESOURCE_CLAIM_TEMPLATES, template),
    }
    if "alternative" not in name:
        renamed = {**make(claim), "metadata": {"name": "old", "namespace": "team"}}
        answers.add(is_asked(strict, V1BETA1[RESOURCE_CLAIMS], flat(renamed)))
    assert {name in ASKED} == answers


@pytest.mark.parametrize(("text", "asked"), [("gpu.nvidia.com", True), ("nics.example.com", False)])
def test_a_class_is_asked_about_if_it_mentions_the_driver(strict: Any, text: str, asked: bool) -> None:
    selector = {"cel": {"expression": f"device.driver == '{text}'"}}

    assert asked == is_asked(
        strict, DEVICE_CLASSES, {"metadata": {"name": "some"}, "spec": {"selectors": [selector]}}
    )


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}, True),
        ({}, False),
    ],
    ids=["with claims", "without"],
)
def test_a_pod_is_asked_about_if_it_has_claims(strict: Any, changes: Object, asked: bool) -> None:
    spec = {"containers": [{"name": "app", "image": "app"}], **changes}

    assert asked == is_asked(strict, PODS, {"metadata": {"name": "p", "namespace": "team"}, "spec": spec})


def test_what_controllers_make_is_passed_by(strict: Any) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    metadata = {"name": "p", "namespace": "team", "ownerReferences": [owner]}
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    spec = {"containers": [{"name": "app", "image": "app"}], "resourceClaims": claims}

    assert not is_asked(strict, PODS, {"metadata": metadata, "spec": spec})


def test_nobody_is_refused_while_no_controller_is_there(door: Any, claim: Make) -> None:
    door.register()

    assert door.client.create(RESOURCE_CLAIMS, claim("device.attributes['gpu.nvidia.com'].memory == 1"))


def device(name: str, **attributes: str) -> Object:
    told = {"type": "gpu", **attributes}
    return {"name": name, "attributes": {key: {"string": value} for key, value in told.items()}}


def test_what_the_slices_publish_decides_and_follows_their_changes(
    door: Any, webhook: Any, claim: Make, until: Any
) -> None:
    pool = {"name": "node-a/gpu", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "node-a", "pool": pool}
    made = door.client.create(
        RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": {**spec, "devices": [device("gpu-0", room="a")]}}
    )
    fragile = claim("device.attributes['gpu.nvidia.com'].room == 'a'")

    def judged() -> set[str]:
        found = webhook.cluster.surroundings()
        return {name[2] for known in found.devices for name in known.values}

    def knows(*names: str) -> Callable[[], None]:
        def check() -> None:
            assert set(names) == judged()

        return check

    until(knows("type", "room"))
    door.client.create(RESOURCE_CLAIMS, fragile)
    door.client.replace(RESOURCE_SLICES, {**made, "spec": {**spec, "devices": [device("gpu-0")]}})
    until(knows("type"))
    with pytest.raises(ApiError, match=r'no known device has the attribute|has the attribute named "?room'):
        door.client.create(RESOURCE_CLAIMS, {**fragile, "metadata": {"name": "d", "namespace": "team"}})
    door.client.delete(RESOURCE_SLICES, "s")
    until(knows())


@pytest.mark.kubectl
@pytest.mark.skipif(not KUBECTL.exists(), reason="there is no kubectl in .venv")
def test_what_is_applied_together_is_known_together(
    door: Any, webhook: Any, claim: Make, tmp_path: Path
) -> None:
    """A class, a template of it and a Pod of that, in one file: nothing is called missing."""
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    new_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "new.nvidia.com"},
        "spec": {"selectors": [selector]},
    }
    uses = {"claims": [{"name": "gpu"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "containers": [{"name": "app", "image": "app", "resources": uses}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "c"}],
        },
    }
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([new_class, in_template(claim(device_class="new.nvidia.com")), pod]))
    command = [str(KUBECTL), "--kubeconfig", str(door.kubeconfig), "apply", "-f", str(file)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    assert (0, "") == (done.returncode, done.stderr)
