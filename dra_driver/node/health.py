"""What /healthz and /readyz of the node plugin stand for; a sentence says what is not as it should be."""

from dra_driver.errors import UnavailableError
from dra_driver.kubelet.plugin import KubeletPlugin
from dra_driver.kubelet.probe import probe
from dra_driver.node.coexistence import DevicePluginWatch
from dra_driver.node.hardware import Hardware
from dra_driver.slices.publisher import Publisher


class NodeHealth:
    """Checks for `ProbeServer`."""

    def __init__(
        self,
        kubelet: KubeletPlugin,
        hardware: Hardware,
        device_plugins: DevicePluginWatch,
        publisher: Publisher,
    ) -> None:
        self._kubelet = kubelet
        self._hardware = hardware
        self._device_plugins = device_plugins
        self._publisher = publisher

    def check_alive(self) -> None:
        """Raise UnavailableError unless the kubelet could reach us."""
        probe(self._kubelet.registration_socket, self._kubelet.endpoint)
        if not self._hardware.alive:
            raise UnavailableError("the thread that looks at the hardware has ended; see the log")

    def check_ready(self) -> None:
        """Raise UnavailableError unless Pods can be scheduled here and start."""
        registration = self._kubelet.registration
        if registration.registered is None:
            raise UnavailableError("the kubelet has not registered the plugin yet")
        if not registration.registered:
            raise UnavailableError(f"the kubelet refused the plugin: {registration.error}")
        if self._hardware.error is not None:
            raise UnavailableError(f"looking at the hardware failed: {self._hardware.error}; see the log")
        if not self._hardware.scanned.is_set():
            raise UnavailableError("the hardware has not answered yet")
        if self._device_plugins.answer:
            raise UnavailableError("a device plugin hands out the GPUs of this node, so none is published")
        status = self._publisher.status()
        if status.error is not None:
            raise UnavailableError(status.error)
