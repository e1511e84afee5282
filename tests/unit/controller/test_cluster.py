"""What all parts of a controller are told of the cluster, without a server."""

from typing import cast

from dra_driver.controller.cluster import Cluster
from dra_driver.controller.webhook.cluster import LiveCluster
from dra_driver.kube.client import Client
from dra_driver.kube.resources import DEVICE_CLASSES

NOBODY = cast("Client", None)  # asked only by threads that do not run here


def test_a_class_that_a_review_has_looked_up_is_news_to_the_others() -> None:
    cluster = Cluster(NOBODY, namespace="dra-driver")
    before = cluster.version(DEVICE_CLASSES)
    metadata = {"name": "fast", "uid": "uid-fast", "resourceVersion": "7"}
    found = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": {}}

    LiveCluster(cluster, NOBODY, NOBODY, "gpu.nvidia.com").adopt_class(found)

    assert cluster.classes.get("fast")
    assert (True, True) == (cluster.version(DEVICE_CLASSES) != before, cluster.changed.is_set())
