"""A kubelet for DRA: real gRPC over real sockets, containers in memory.

`kubelet.Kubelet` is the whole. Its parts: `watcher` finds plugins, `plugins` calls them, `wiping` deletes the
slices of those that are gone; `manager` prepares and unprepares claims, which `claims` remembers; `pods` leads
each Pod through its life, `containers` makes of the CDI ids what a container runtime would, with the devices that
`dra_driver.cdi.registry` finds; `status` is what the API server is told. The rules and texts are those of kubelet 1.36
and containerd 2, read from their sources and compared with their behaviour.
"""

from dra_driver.embedded.kubelet.containers import ContainerView
from dra_driver.embedded.kubelet.kubelet import Kubelet
from dra_driver.embedded.kubelet.timing import Timing

__all__ = ["ContainerView", "Kubelet", "Timing"]
