"""The DRA drivers that are registered, and the connections to them.

Each registered endpoint has a connection of its own that is kept alive, so that the kubelet notices when a
driver goes away without a call. A driver that has no living connection for a while loses its ResourceSlices
(see `wiping`), which is why every change is reported there. A driver may have several endpoints during its
update: the youngest that is connected is called, else the youngest.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
import structlog

from dra_driver.embedded.kubelet.claims import Device
from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.kubelet.pb import dra_v1_pb2, dra_v1_pb2_grpc, dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from dra_driver.kubelet.registration import V1, V1BETA1
from dra_driver.prepare.claim import ClaimRef

log = structlog.get_logger(__name__)

_SERVICES: Mapping[str, tuple[Any, Any]] = {
    V1: (dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub),
    V1BETA1: (dra_v1beta1_pb2, dra_v1beta1_pb2_grpc.DRAPluginStub),
}
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    # Else a new connection to the same path inherits the back-off of the one before, from another plugin.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
# The thread behind Channel.subscribe looks at the channel up to 0.2 s after the last unsubscribe, and dies of an
# exception where that was closed before.
_LINGER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A driver's entry for one claim."""

    error: str
    devices: tuple[Device, ...] = ()


class Plugin:
    """One endpoint of a driver. Connects at once; `watch` tells when that succeeded, and when it ended."""

    def __init__(self, driver: str, endpoint: str, service: str, timeout: float) -> None:
        """`service` is the protocol spoken, of `_SERVICES`; `timeout` in seconds is each call's."""
        self.driver = driver
        self.endpoint = endpoint
        self.service = service
        self.connected = False
        self._timeout = timeout
        self._pb, stub = _SERVICES[service]
        self._changed: Callable[[], None] = lambda: None
        self._calls: set[Any] = set()  # those under way
        self._lock = threading.Lock()  # of _calls, and of giving the channel up
        self._channel: grpc.Channel | None = grpc.insecure_channel(f"unix:{endpoint}", options=_OPTIONS)
        self._stub = stub(self._channel)

    def watch(self, changed: Callable[[], None]) -> None:
        """Connect, and call `changed` (from a thread of gRPC) whenever `connected` changed."""
        self._changed = changed
        if self._channel is not None:
            self._channel.subscribe(self._heard, try_to_connect=True)

    def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, Answer]:
        """NodePrepareResources: the driver's entries by claim UID."""
        request = self._pb.NodePrepareResourcesRequest(claims=self._claims(claims))
        response = self._call("NodePrepareResources", request)
        return {
            uid: Answer(entry.error, tuple(_device(device) for device in entry.devices))
            for uid, entry in response.claims.items()
        }

    def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, Answer]:
        """NodeUnprepareResources: the driver's entries by claim UID."""
        request = self._pb.NodeUnprepareResourcesRequest(claims=self._claims(claims))
        response = self._call("NodeUnprepareResources", request)
        return {uid: Answer(entry.error) for uid, entry in response.claims.items()}

    def close(self) -> None:
        """Give the connection up: calls that are under way and later ones fail."""
        with self._lock:
            channel, self._channel, self.connected = self._channel, None, False
            calls = list(self._calls)
        for call in calls:
            call.cancel()
        if channel is not None:
            channel.unsubscribe(self._heard)
            closing = threading.Timer(_LINGER_SECONDS, channel.close)
            closing.daemon = True
            closing.start()

    def _heard(self, state: grpc.ChannelConnectivity) -> None:
        connected = state is grpc.ChannelConnectivity.READY and self._channel is not None
        if connected != self.connected:
            self.connected = connected
            self._changed()

    def _claims(self, claims: Sequence[ClaimRef]) -> list[Any]:
        return [self._pb.Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid) for ref in claims]

    def _call(self, method: str, request: Any) -> Any:
        closed = f"{method}: rpc error: code = Canceled desc = grpc: the client connection is closing"
        with self._lock:
            if self._channel is None:
                raise KubeletError(closed)
            call = getattr(self._stub, method).future(request, timeout=self._timeout)
            self._calls.add(call)
        try:
            return call.result()
        except grpc.FutureCancelledError as error:
            raise KubeletError(closed) from error
        except grpc.RpcError as error:
            raise KubeletError(f"{method}: {self._text(error)}") from error
        finally:
            with self._lock:
                self._calls.discard(call)

    def _text(self, error: Any) -> str:
        """A gRPC error as grpc-go prints it; what Python's client says of connections is translated."""
        code: grpc.StatusCode = error.code()
        details: str = error.details() or ""
        name = "".join(word.capitalize() for word in code.name.split("_")).replace("Cancelled", "Canceled")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and details == "Deadline Exceeded":
            details = "context deadline exceeded"
        elif details.startswith("failed to connect to all addresses"):
            reason = "connection refused" if Path(self.endpoint).exists() else "no such file or directory"
            details = (
                'connection error: desc = "transport: Error while dialing: '
                f'dial unix {self.endpoint}: connect: {reason}"'
            )
        elif details == "Socket closed":
            details = "error reading from server: EOF"
        return f"rpc error: code = {name} desc = {details}"


def _device(message: Any) -> Device:
    has_share = "share_id" in message.DESCRIPTOR.fields_by_name and message.HasField("share_id")
    return Device(
        message.pool_name,
        message.device_name,
        message.share_id if has_share else None,
        tuple(message.request_names),
        tuple(message.cdi_device_ids),
    )


class Wiper(Protocol):
    """What is told whether a driver can be used; see `wiping.SliceWiper`."""

    def usable(self, driver: str) -> None: ...

    def unusable(self, driver: str) -> None: ...


class PluginStore:
    """All registered plugins of a kubelet that speaks the protocols `supported`."""

    def __init__(self, wiper: Wiper, *, supported: Sequence[str], timeout: float) -> None:
        self._wiper = wiper
        self._supported = tuple(supported)
        self._timeout = timeout
        self._plugins: dict[str, list[Plugin]] = {}
        self._changed = threading.Condition(threading.RLock())

    def choose(self, driver: str, endpoint: str, services: Sequence[str]) -> str:
        """The first protocol of a plugin's list that this kubelet speaks."""
        text = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}"
        if not services:
            raise KubeletError(f"{text}: empty list of supported gRPC services (aka supported versions)")
        for service in services:
            if service in self._supported:
                return service
        raise KubeletError(
            f"{text}: none of services supported by the plugin ({_quoted(services)}) "
            f"are supported by the kubelet ({_quoted(self._supported)})"
        )

    def register(self, driver: str, endpoint: str, services: Sequence[str]) -> None:
        service = self.choose(driver, endpoint, services)
        with self._changed:
            plugins = self._plugins.setdefault(driver, [])
            if any(plugin.endpoint == endpoint for plugin in plugins):
                raise KubeletError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
            plugin = Plugin(driver, endpoint, service, self._timeout)
            plugins.append(plugin)
        log.info("plugin registered", driver=driver, endpoint=endpoint, service=service)
        self._sync(driver)  # before it connects, so that it counts as gone until it does
        plugin.watch(lambda: self._sync(driver))

    def deregister(self, driver: str, endpoint: str) -> None:
        with self._changed:
            plugins = self._plugins.get(driver, [])
            gone = [plugin for plugin in plugins if plugin.endpoint == endpoint]
            self._plugins[driver] = [plugin for plugin in plugins if plugin.endpoint != endpoint]
        for plugin in gone:  # outside the lock: closing waits for gRPC's thread, which may wait for the lock
            plugin.close()
            log.info("plugin deregistered", driver=driver, endpoint=endpoint)
        self._sync(driver)

    def get(self, driver: str) -> Plugin:
        """The plugin to call."""
        with self._changed:
            plugins = self._plugins.get(driver)
            if not plugins:
                raise KubeletError(f"DRA driver {driver} is not registered")
            return next((plugin for plugin in reversed(plugins) if plugin.connected), plugins[-1])

    def registered(self) -> dict[str, list[Plugin]]:
        with self._changed:
            return {driver: list(plugins) for driver, plugins in self._plugins.items() if plugins}

    def wait_connected(self, driver: str, timeout: float) -> bool:
        """Wait until a plugin of `driver` is registered and connected; False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._usable(driver), timeout)

    def wait_deregistered(self, driver: str, timeout: float) -> bool:
        """Wait until no plugin of `driver` is registered; False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._plugins.get(driver), timeout)

    def close(self) -> None:
        with self._changed:
            plugins = [plugin for plugins in self._plugins.values() for plugin in plugins]
            self._plugins.clear()
        for plugin in plugins:
            plugin.close()

    def _usable(self, driver: str) -> bool:
        return any(plugin.connected for plugin in self._plugins.get(driver, ()))

    def _sync(self, driver: str) -> None:
        with self._changed:
            self._changed.notify_all()
            if self._usable(driver):
                self._wiper.usable(driver)
            else:
                self._wiper.unusable(driver)


def _quoted(texts: Sequence[str]) -> str:
    """A list as Go's %q prints it."""
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"
