"""An API server that does not answer, or refuses, now and then."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.embedded.kubelet import Timing
from dra_driver.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES


def test_a_plugin_starts_and_unprepares_without_the_api_server(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    uid = node.claim("a")["metadata"]["uid"]
    node.stopped()
    faults = node.cluster.server.faults
    away = faults.unavailable()

    node.restart()

    node.registered()
    node.until(lambda: node.get("/readyz")[0] == 503, "a plugin that is not ready")
    node.until(lambda: (200, "ok\n") == node.get("/healthz"), "a plugin that is healthy")
    refusal = (
        f"cannot get ResourceClaim default/a: no answer from {node.cluster.server.url} (the connection broke)"
    )
    assert refusal == node.prepare("a", uid).error
    assert "" == node.unprepare("a", uid).error
    assert node.state_of() == node.state()
    faults.remove(away)
    node.ready()
    node.published(4)


def test_slices_are_published_once_the_api_server_is_there(node: Any) -> None:
    node.plugin.stop()
    node.cluster.client.delete_collection(RESOURCE_SLICES)
    away = node.cluster.server.faults.refuse(503, resource=RESOURCE_SLICES, times=None)
    node.restart()
    node.logged("cannot follow")

    node.cluster.server.faults.remove(away)

    node.published(4)
    node.ready()


@pytest.mark.parametrize("code", [409, 429, 500])
def test_refused_writes_are_made_again(node: Any, code: int) -> None:
    for verb in ("update", "create"):
        node.cluster.server.faults.refuse(code, verb, RESOURCE_SLICES)

    node.simulate("gpus: absent")

    node.published(0)
    node.simulate("")
    node.published(4)
    node.ready()


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_claim_that_cannot_be_read_fails_with_the_servers_words_and_then_works(
    node: Any, code: int
) -> None:
    node.run_pod("a")
    node.running("a")
    uid = node.claim("a")["metadata"]["uid"]
    node.cluster.server.faults.refuse(code, "get", RESOURCE_CLAIMS)

    errors = [node.prepare("a", uid).error, node.prepare("a", uid).error]

    assert "" == errors[1]
    assert errors[0].startswith("cannot get ResourceClaim default/a: ")
    assert errors[0].endswith(f" ({code})")


def test_a_prepare_that_outlives_its_deadline_answers_the_retry(new_node: Callable[..., Any]) -> None:
    node = new_node(timing=Timing(call=1.0, pod_retry=0.1, pod_retry_cap=0.5))
    node.published(4)
    node.cluster.server.faults.delay(
        3.0, "get", RESOURCE_CLAIMS, times=2
    )  # the kubelet's own, and the plugin's

    node.run_pod("a")

    node.failed("a", "DeadlineExceeded")
    node.running("a")
    assert node.state_of("a") == node.state()
    assert "level=error" not in node.log()


def test_watches_that_expire_are_no_end(node: Any) -> None:
    faults = node.cluster.server.faults
    faults.forget_history()
    faults.expire_watches(RESOURCE_SLICES)
    (before,) = node.slices()

    node.cluster.client.delete_collection(RESOURCE_SLICES)

    node.until(
        lambda: [before["metadata"]["uid"]] != [s["metadata"]["uid"] for s in node.slices()], "another slice"
    )
    node.published(4)
