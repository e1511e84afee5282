"""The Node object that the kubelet registers."""

import os
import platform
from typing import Any

from dra_driver.embedded.pods import STRATEGIC_PATCH
from dra_driver.kube.client import Client
from dra_driver.kube.errors import AlreadyExistsError
from dra_driver.kube.events import timestamp
from dra_driver.kube.resources import NODES

KUBELET_VERSION = "v1.36.2-embedded"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# GPUs are no part of it: with DRA a node's capacity says nothing of them.
_CAPACITY = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
_PRESSURES = (
    ("Memory", "SufficientMemory", "sufficient memory available"),
    ("Disk", "NoDiskPressure", "no disk pressure"),
    ("PID", "SufficientPID", "sufficient PID available"),
)


def node_object(name: str, ip: str) -> dict[str, Any]:
    """The Node `name` at the address `ip`, ready for Pods."""
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine)
    time = timestamp()
    conditions = [
        _condition(f"{kind}Pressure", "False", f"KubeletHas{reason}", f"kubelet has {text}", time)
        for kind, reason, text in _PRESSURES
    ]
    conditions.append(_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", time))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture,
            },
        },
        "spec": {},
        "status": {
            "capacity": dict(_CAPACITY),
            "allocatable": dict(_CAPACITY),
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": architecture,
                "operatingSystem": "linux",
                "kernelVersion": os.uname().release,
                "osImage": "embedded cluster",
                "containerRuntimeVersion": "embedded://1",
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def register(client: Client, name: str, ip: str) -> None:
    """Create the Node, or bring its status up to date; ApiError or UnavailableError where that failed."""
    body = node_object(name, ip)
    try:
        client.create(NODES, body)
    except AlreadyExistsError:
        change = {"status": body["status"]}
        client.patch(NODES, name, change, subresource="status", content_type=STRATEGIC_PATCH)


def _condition(kind: str, status: str, reason: str, message: str, time: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    }
