"""A whole cluster on one machine: API server, controllers, scheduler, and nodes with a kubelet and the real plugin.

Everything but the plugins and this driver's controller runs in threads of this process; each of those is a process of
its own, started as in a cluster, with its directories below the cluster's. So what is seen here is what they do, and only
what surrounds them is embedded.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.embedded.controllers import Controllers
from dra_driver.embedded.kubelet import Kubelet, Timing
from dra_driver.embedded.scheduler import Scheduler
from dra_driver.errors import UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.errors import AlreadyExistsError
from dra_driver.kube.resources import NAMESPACES
from dra_driver.kubelet.registration import VERSIONS
from dra_driver.sharing.keeper import clear_directory
from dra_driver.sharing.supervision import DaemonDirectory

DRIVER_NAME = "gpu.nvidia.com"
CONTROLLER_NAMESPACE = "dra-driver"
_STOP_SECONDS = 60.0


@dataclass(slots=True)
class PluginProcess:
    """A node plugin, or a controller, as a process; its log is appended to `log`."""

    command: Sequence[str]
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stderr=log)  # noqa: S603 - our own command
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait(self, timeout: float) -> int:
        """The exit code, once it has ended; negative for a signal. UnavailableError if it does not in time."""
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"process {self.pid} has not ended after {timeout:g} s") from None

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it and return the exit code; it is killed where it does not end."""
        if self._process is None:
            return 0
        if self.running():
            os.kill(self.pid, number)
        try:
            return self.wait(_STOP_SECONDS)
        except UnavailableError:
            os.kill(self.pid, signal.SIGKILL)
            return self.wait(_STOP_SECONDS)


@dataclass(slots=True)
class ClusterNode:
    """A node: its directory, its kubelet, its plugin."""

    name: str
    profile: str
    directory: Path
    kubelet: Kubelet
    plugin: PluginProcess
    _new_kubelet: Callable[[], Kubelet]

    def restart_kubelet(self) -> None:
        """As after a reboot of the kubelet's host, Pods get their containers anew; see `Kubelet`."""
        self.kubelet.stop()
        self.kubelet = self._new_kubelet().start()

    def stop(self) -> None:
        self.plugin.stop()
        self.kubelet.stop()


@dataclass(slots=True)
class Cluster:
    """Started by `start`, ended by `stop`; also a context manager."""

    directory: Path  # short: sockets below it have at most 107 bytes of path
    server: ApiServer = field(init=False)
    client: Client = field(init=False)
    scheduler: Scheduler = field(init=False)
    kubeconfig: Path = field(init=False)
    nodes: list[ClusterNode] = field(default_factory=list)
    _closing: ExitStack = field(default_factory=ExitStack)

    def start(self) -> Self:
        """API server, controllers and scheduler; nodes are added with `add_node`."""
        self.server = ApiServer().start()
        self._closing.callback(self.server.stop)
        self.kubeconfig = self.directory / "kubeconfig"
        self.server.write_kubeconfig(self.kubeconfig)
        self.client = Client.connect(self.kubeconfig)
        self._closing.callback(self.client.close)
        self.scheduler = Scheduler(self.client)
        for component in (Controllers(self.client), self.scheduler):
            component.start()
            self._closing.callback(component.stop)
        return self

    def add_node(
        self,
        name: str,
        profile: str,
        *flags: str,
        cdi_dir: Path | None = None,
        timing: Timing | None = None,
        supported_versions: Sequence[str] = VERSIONS,
    ) -> ClusterNode:
        """A node of a kind, with a running kubelet and plugin; `flags` are added to the plugin's.

        `cdi_dir` is for a container runtime that is there already, `timing` and `supported_versions` are the kubelet's.
        """
        directory = self.directory / name
        cdi_dir = cdi_dir or directory / "cdi"
        for folder in (directory, cdi_dir):
            folder.mkdir(parents=True, exist_ok=True)

        def new_kubelet() -> Kubelet:
            return Kubelet(
                self.client,
                node_name=name,
                root=directory,
                cdi_dirs=[cdi_dir],
                placeholders=os.geteuid() != 0,  # without root the simulated device nodes are empty files
                supported_versions=supported_versions,
                timing=timing,
            )

        kubelet = new_kubelet().start()
        plugin = _process(
            directory / "plugin.log",
            "kubelet-plugin",
            f"--node-name={name}",
            f"--backend=simulated:{profile}",
            f"--kubeconfig={self.kubeconfig}",
            f"--cdi-dir={cdi_dir}",
            f"--kubelet-plugins-dir={kubelet.plugins_dir}",
            f"--kubelet-registry-dir={kubelet.registry_dir}",
            *flags,
        )
        node = ClusterNode(name, profile, directory, kubelet, plugin, new_kubelet)
        self._closing.callback(node.stop)
        plugin.start()
        self.nodes.append(node)
        return node

    def add_controller(self, identity: str = "controller") -> PluginProcess:
        """A running replica, which says why Pods wait. Nothing calls its webhook, since none is registered."""
        with contextlib.suppress(AlreadyExistsError):
            self.client.create(NAMESPACES, {"metadata": {"name": CONTROLLER_NAMESPACE}})
        controller = _process(
            self.directory / f"{identity}.log",
            "controller",
            f"--namespace={CONTROLLER_NAMESPACE}",
            f"--kubeconfig={self.kubeconfig}",
            f"--identity={identity}",
            "--webhook-address=127.0.0.1:0",
        )
        self._closing.callback(controller.stop)
        return controller.start()

    def add_mps_supervisor(self, node: ClusterNode) -> PluginProcess:
        """The process that runs MPS daemons on the node, for claims that ask for MPS."""
        plugins_dir = node.kubelet.plugins_dir
        log = node.directory / "mps-supervisor.log"
        supervisor = _process(log, "mps-supervisor", f"--kubelet-plugins-dir={plugins_dir}")
        self._closing.callback(_clear_daemons, plugins_dir / DRIVER_NAME / "mps")
        self._closing.callback(supervisor.stop)
        return supervisor.start()

    def stop(self) -> None:
        self._closing.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _process(log: Path, *arguments: str) -> PluginProcess:
    return PluginProcess([sys.executable, "-m", "dra_driver", *arguments], log)


def _clear_daemons(directory: Path) -> None:
    """Unmount what the daemons of claims that have not ended share: their supervisor leaves it for the next one."""
    for path in directory.iterdir() if directory.exists() else ():
        clear_directory(DaemonDirectory(path))
