"""What goes wrong in a kubelet, in the kubelet's own words.

Texts here end up in Pod events and are what users search for, so they are those of kubelet 1.36 (and of
containerd 2), not in the style of `dra_driver.errors`.
"""

from dra_driver.errors import DriverError


class KubeletError(DriverError):
    """A Pod or a plugin cannot be brought to its wanted state now; it is tried again with back-off."""


class ContainerError(KubeletError):
    """The container runtime refuses a container; its Pod waits for `reason`."""

    reason: str


class CreateContainerError(ContainerError):
    """The container cannot be made."""

    reason = "CreateContainerError"


class RunContainerError(ContainerError):
    """The container was made, but its process cannot be started."""

    reason = "RunContainerError"
