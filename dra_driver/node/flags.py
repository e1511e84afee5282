"""Flags and environment of the node plugin.

Names that the official driver uses for the same thing are accepted too, so that its manifests need no edits.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dra_driver.config.node import MigMode, NodeConfig, load
from dra_driver.errors import UsageError
from dra_driver.process.flags import LOGGING, Flag, Values, read
from dra_driver.resource import names
from dra_driver.resource.limits import MAX_DRIVER_NAME, MAX_POOL_NAME


@dataclass(frozen=True, slots=True)
class Settings:
    """What the plugin was told."""

    driver_name: str
    node_name: str
    kubeconfig: Path | None  # None: in cluster
    kubelet_plugins_dir: Path
    kubelet_registry_dir: Path
    cdi_dir: Path
    driver_root: PurePosixPath | None  # on the host; None: looked for
    container_driver_root: Path | None  # where this process sees it, if elsewhere
    host_root: Path  # where this process sees the host's /
    nvidia_cdi_hook_path: str | None  # on the host; None: looked for
    backend: str  # "nvml" or "simulated:PROFILE"
    pool_name: str | None  # None: made from the node's name
    node_config: NodeConfig  # how the GPUs are offered
    metrics_address: str | None  # "host:port"; None: not served
    healthcheck_port: int  # -1: not served, 0: any
    rescan_seconds: float
    log_format: str
    log_level: str

    @property
    def pool(self) -> str:
        """The name of our pool, unlike any other driver's on this node.

        Schedulers up to 1.36 mix up the counters of pools of the same name, so it has a part of our own.
        """
        name = self.pool_name or f"{self.node_name}/gpu"
        if len(name) <= MAX_POOL_NAME:
            return name
        return f"node-{hashlib.sha256(self.node_name.encode()).hexdigest()[:16]}/gpu"

    @property
    def plugin_dir(self) -> Path:
        """Our directory under the kubelet's: sockets, records, lock."""
        return self.kubelet_plugins_dir / self.driver_name


FLAGS = (
    Flag("driver-name", "gpu.nvidia.com", "name in slices, classes and CDI; also our directory's"),
    Flag("node-name", None, "name of this node (required)"),
    Flag("kubeconfig", None, "credentials for the API server; default: those of the Pod"),
    Flag(
        "kubelet-plugins-dir",
        "/var/lib/kubelet/plugins",
        "the kubelet's plugin directory",
        ("kubelet-plugins-directory-path",),
        ("KUBELET_PLUGINS_DIRECTORY_PATH",),
    ),
    Flag(
        "kubelet-registry-dir",
        "/var/lib/kubelet/plugins_registry",
        "the kubelet's registration directory",
        ("kubelet-registrar-directory-path",),
        ("KUBELET_REGISTRAR_DIRECTORY_PATH",),
    ),
    Flag(
        "cdi-dir",
        "/var/run/cdi",
        "where CDI specs go; the container runtime must read it",
        ("cdi-root",),
        ("CDI_ROOT",),
    ),
    Flag(
        "driver-root",
        None,
        "host directory of the NVIDIA driver, such as / or /run/nvidia/driver; default: looked for",
        ("nvidia-driver-root", "host_driver-root"),
        ("NVIDIA_DRIVER_ROOT", "HOST_DRIVER_ROOT"),
    ),
    Flag(
        "container-driver-root",
        None,
        "where this process sees the driver root, if not below the host root",
        (),
        ("DRIVER_ROOT_CTR_PATH",),
    ),
    Flag("host-root", "/", "where this process sees the root directory of the host"),
    Flag(
        "nvidia-cdi-hook-path",
        None,
        "nvidia-cdi-hook on the host; default: looked for, and without it containers get the driver by mounts alone",
    ),
    Flag("backend", "nvml", "nvml, or simulated:PROFILE with the name or the file of a profile"),
    Flag("pool-name", None, "name of the pool; default: NODE/gpu"),
    Flag(
        "mig",
        "auto",
        "auto, static, dynamic or off: whether GPUs are offered whole, as the MIG devices that exist, or as all that they "
        "can be cut into on demand; for GPUs of which the configuration file does not say",
        choices=tuple(MigMode),
    ),
    Flag(
        "config", None, "configuration file with settings for single GPUs, read at the start; default: none"
    ),
    Flag(
        "metrics-address",
        None,
        "host:port for /metrics, /healthz and /readyz; default: not served",
        ("http-endpoint",),
        ("HTTP_ENDPOINT",),
    ),
    Flag("healthcheck-port", "-1", "TCP port of the gRPC health service; 0: any, -1: not served"),
    Flag("rescan-seconds", "10", "how often the hardware is looked at"),
    *LOGGING,
)


def parse(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the command line and the environment; UsageError says which one is wrong.

    `--help` prints and exits, as argparse does.
    """
    values = read(
        FLAGS,
        arguments,
        environment,
        command="kubelet-plugin",
        description="Discover the GPUs of this node, publish them, and prepare the claims allocated here.",
    )
    return _settings(values)


def _settings(values: Values) -> Settings:
    driver_name = values.text("driver_name")
    if names.subdomain(driver_name) or len(driver_name) > MAX_DRIVER_NAME:
        msg = (
            f"--driver-name: {driver_name!r} must be a DNS subdomain of at most {MAX_DRIVER_NAME} characters,"
            " such as gpu.nvidia.com"
        )
        raise UsageError(msg)
    node_name = values.text("node_name")
    if names.subdomain(node_name):
        msg = f"--node-name: {node_name!r} is no name that a Node can have; it is that of `kubectl get nodes`"
        raise UsageError(msg)
    pool_name = values["pool_name"]
    if pool_name is not None and any(names.pool_name("", pool_name)):
        msg = f"--pool-name: {pool_name!r} must be DNS subdomains with slashes between, such as node-1/gpu"
        raise UsageError(msg)
    backend = values.text("backend")
    if backend != "nvml" and not (backend.startswith("simulated:") and backend != "simulated:"):
        msg = f"--backend: {backend!r} is neither nvml nor simulated:PROFILE"
        raise UsageError(msg)
    config, mig = values.path("config"), MigMode(values.text("mig"))
    return Settings(
        driver_name=driver_name,
        node_name=node_name,
        kubeconfig=values.path("kubeconfig"),
        kubelet_plugins_dir=values.directory("kubelet_plugins_dir"),
        kubelet_registry_dir=values.directory("kubelet_registry_dir"),
        cdi_dir=values.directory("cdi_dir"),
        driver_root=PurePosixPath(values.directory("driver_root")) if values["driver_root"] else None,
        container_driver_root=values.directory("container_driver_root")
        if values["container_driver_root"]
        else None,
        host_root=values.directory("host_root"),
        nvidia_cdi_hook_path=str(values.directory("nvidia_cdi_hook_path"))
        if values["nvidia_cdi_hook_path"]
        else None,
        backend=backend,
        pool_name=pool_name,
        node_config=NodeConfig(mig) if config is None else load(config, mig),
        metrics_address=values.address("metrics_address"),
        healthcheck_port=int(values.number("healthcheck_port", -1, 65535)),
        rescan_seconds=values.number("rescan_seconds", 0.1, 3600),
        log_format=values.text("log_format"),
        log_level=values.text("log_level"),
    )
