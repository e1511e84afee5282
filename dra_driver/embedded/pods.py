"""The status of Pods, to which controllers, scheduler and kubelet each write their part."""

from collections.abc import Mapping
from typing import Any

from dra_driver.kube.client import Client
from dra_driver.kube.resources import PODS

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def patch_status(client: Client, pod: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `status` into that of this very Pod: what others wrote stays, lists are merged by their keys.

    Returns the Pod as it is then.
    """
    metadata = pod["metadata"]
    return client.patch(
        PODS,
        metadata["name"],
        {"metadata": {"uid": metadata["uid"]}, "status": status},
        namespace=metadata["namespace"],
        subresource="status",
        content_type=STRATEGIC_PATCH,
    )
