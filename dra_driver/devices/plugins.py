"""NVIDIA's device plugin, as a Node's status shows it: the older way to hand out the GPUs that we hand out.

Extended resources of a DeviceClass are no resources of a node, so what stands in its status comes from a device plugin.
Allocatable is what the plugin calls healthy, none while it restarts; its Pods go on, and the capacity still tells of it.
"""

from collections.abc import Mapping
from typing import Any

_PREFIXES = ("nvidia.com/gpu", "nvidia.com/mig-")


def device_plugin_resources(node: Mapping[str, Any]) -> dict[str, str]:
    """GPU resources that a device plugin advertises in a Node's status, such as {"nvidia.com/gpu": "8"}."""
    status = node.get("status") or {}
    amounts = {**(status.get("allocatable") or {}), **(status.get("capacity") or {})}
    return {
        name: str(amount)
        for name, amount in sorted(amounts.items())
        if name.startswith(_PREFIXES) and str(amount) != "0"
    }
