"""`dra-driver lint` with a cluster: its objects judged, or files judged by its devices, classes and claims."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

GPU = "device.attributes['gpu.nvidia.com']"
MEMORY = "device.capacity['gpu.nvidia.com'].memory"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def run(*objects: Any) -> str:
        path = tmp_path / "given.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return str(path)

    return run


def claim(cluster: Any, expression: str, **exactly: Any) -> Any:
    spec = cluster.spec(expression, **exactly)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": spec,
    }


def pod(**entry: str) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "containers": [{"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", **entry}],
        },
    }


def codes(ran: Any) -> set[tuple[str, str]]:
    return {(finding["file"], finding["code"]) for finding in ran.data["findings"]}


def test_the_objects_of_a_namespace_are_judged_by_the_devices_that_there_are(cluster: Any) -> None:
    cluster.template("never", f"{MEMORY}.isGreaterThan(quantity('80Gi'))")
    cluster.claim("fine", f"{GPU}.productName.contains('H100')")

    ran = cluster.run("lint", "-o", "json")

    assert 1 == ran.code
    assert {("ResourceClaimTemplate team/never", "never-matches")} == codes(ran)
    (finding,) = ran.data["findings"]
    assert "line" not in finding
    assert "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression" == finding["path"]


def test_a_cluster_without_mistakes_has_no_findings(cluster: Any) -> None:
    cluster.claim("fine", f"{GPU}.productName.contains('H100')")

    assert (0, "") == (cluster.run("lint").code, cluster.run("lint", "-o", "lines").out)


def test_a_namespace_without_objects_is_told_from_one_without_mistakes(cluster: Any) -> None:
    empty = cluster.run("lint").err
    cluster.claim("fine")

    assert "note: namespace team has no claims, templates or Pods\n" == empty
    assert "" == cluster.run("lint").err


def test_the_place_of_a_finding_is_the_object_and_the_field(cluster: Any) -> None:
    cluster.claim("c", f"{GPU}.productNam == 'NVIDIA L40S'")

    (line, *_) = cluster.run("lint").out.splitlines()

    assert line.startswith(
        "ResourceClaim team/c spec.devices.requests[0].exactly.selectors[0].cel.expression: error: "
    )
    assert line.endswith("[unknown-attribute]")


def test_claims_made_from_a_template_are_not_told_once_more(cluster: Any) -> None:
    cluster.template("never", f"{MEMORY}.isGreaterThan(quantity('80Gi'))")
    cluster.pod("train", template="never")
    cluster.decided("train")

    found = codes(cluster.run("lint", "-o", "json"))

    assert ("ResourceClaimTemplate team/never", "never-matches") in found
    assert not {place for place, _ in found if place.startswith("ResourceClaim ")}


def test_files_are_judged_by_the_cluster(cluster: Any, write: Any) -> None:
    given = write(claim(cluster, f"{GPU}.productName == 'NVIDIA L4'"))

    assert 0 == cluster.run("lint", given).code
    live = cluster.run("lint", given, "--live", "-o", "json")

    assert (1, {(given, "never-matches")}) == (live.code, codes(live))
    assert live.data["findings"][0]["line"] > 0


def test_a_pod_of_a_file_finds_its_claim_in_the_cluster_or_not_at_all(cluster: Any, write: Any) -> None:
    cluster.template("there")

    assert 0 == cluster.run("lint", "--live", "-f", write(pod(resourceClaimTemplateName="there"))).code
    ran = cluster.run("lint", "--live", "-f", write(pod(resourceClaimTemplateName="gone")), "-o", "json")

    assert {"missing-claim"} == {code for _, code in codes(ran)}
    assert "warning" == ran.data["findings"][0]["severity"]


def test_a_file_replaces_the_object_of_the_cluster(cluster: Any, write: Any) -> None:
    cluster.claim("c", f"{MEMORY}.isGreaterThan(quantity('80Gi'))")
    given = write(claim(cluster, f"{MEMORY}.isGreaterThan(quantity('40Gi'))"), pod(resourceClaimName="c"))

    assert 0 == cluster.run("lint", "--live", given).code


def test_a_cluster_that_is_not_there_is_told(cluster: Any, tmp_path: Path) -> None:
    body = yaml.safe_load(cluster.kubeconfig.read_text())
    body["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    cluster.kubeconfig.write_text(json.dumps(body))

    assert 3 == cluster.run("lint").code
