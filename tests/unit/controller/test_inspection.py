"""The leader's round, without a server: what it knows is what was put into its copies."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from dra_driver.controller.cluster import Cluster
from dra_driver.controller.explainer import inspection
from dra_driver.controller.explainer.inspection import Inspection, Patience
from dra_driver.controller.explainer.metrics import Metrics
from dra_driver.kube.client import Client
from dra_driver.kube.events import Recorder

DRIVER = "gpu.nvidia.com"
NOBODY = cast("Client", None)  # asked only by threads that do not run here


def test_the_time_in_which_another_replica_led_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(inspection, "time", SimpleNamespace(monotonic=lambda: now))
    cluster = Cluster(NOBODY, namespace="dra-driver")
    inspected = Inspection(
        NOBODY,
        cluster,
        Recorder(NOBODY, component=DRIVER),
        Metrics(CollectorRegistry(), lambda: True),
        driver_name=DRIVER,
        taint=False,
        patience=Patience(unreserved=60.0),
    )
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1/gpu", "device": "gpu-0"}
    claim: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team", "uid": "uid-c", "resourceVersion": "1"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    cluster.claims.adopt(claim)
    found = [inspected.look(lambda: True).unreserved]

    inspected.forget()
    now += 3600  # in which the claim was reserved, and is not for this moment
    found += [inspected.look(lambda: True).unreserved]
    now += 60
    found += [inspected.look(lambda: True).unreserved]

    assert [0, 0, 1] == found
