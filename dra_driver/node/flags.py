"""Flags and environment of the node plugin.

Each flag can be given as an environment variable of the same name in capitals; the command line wins. Names
that the official driver uses for the same thing are accepted too, so that its manifests need no edits.
argparse rather than typer: the node plugin starts on every node, and typer costs it a fifth of a second.
"""

import argparse
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn

from dra_driver.errors import UsageError
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


class Flag(NamedTuple):
    name: str
    default: str | None
    help: str
    aliases: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()  # of the official driver, beside our own
    choices: tuple[str, ...] | None = None


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
        "metrics-address",
        None,
        "host:port for /metrics, /healthz and /readyz; default: not served",
        ("http-endpoint",),
        ("HTTP_ENDPOINT",),
    ),
    Flag("healthcheck-port", "-1", "TCP port of the gRPC health service; 0: any, -1: not served"),
    Flag("rescan-seconds", "10", "how often the hardware is looked at"),
    Flag("log-format", "text", "text or json", choices=("text", "json")),
    Flag("log-level", "info", "debug, info, warning or error", choices=("debug", "info", "warning", "error")),
)


def parse(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the command line and the environment; UsageError says which one is wrong.

    `--help` prints and exits, as argparse does.
    """
    environment = os.environ if environment is None else environment
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    values: dict[str, str | None] = {}
    for flag in FLAGS:
        key = flag.name.replace("-", "_")
        value, origin = given[key], f"--{flag.name}"
        if value is None:
            variable = next((v for v in (key.upper(), *flag.variables) if environment.get(v)), None)
            value, origin = (environment[variable], variable) if variable else (flag.default, origin)
        if flag.choices and value not in flag.choices:
            msg = f"{origin}: {value!r} is none of {', '.join(flag.choices)}"
            raise UsageError(msg)
        values[key] = value
    return _settings(values)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dra-driver kubelet-plugin",
        description="Discover the GPUs of this node, publish them, and prepare the claims allocated here.",
        epilog="Each flag can be given as an environment variable in capitals: --node-name as NODE_NAME.",
        allow_abbrev=False,
    )
    for flag in FLAGS:
        default = f" (default {flag.default})" if flag.default else ""
        parser.add_argument(
            *(f"--{name}" for name in (flag.name, *flag.aliases)),
            dest=flag.name.replace("-", "_"),
            metavar="VALUE",
            help=flag.help.replace("%", "%%") + default,
        )
    return parser


def _settings(values: Mapping[str, str | None]) -> Settings:
    def text(key: str) -> str:
        value = values[key]
        if not value:
            msg = f"--{key.replace('_', '-')} (or {key.upper()}) is required and has no default"
            raise UsageError(msg)
        return value

    def directory(key: str) -> Path:
        path = Path(text(key))
        if not path.is_absolute():
            msg = f"--{key.replace('_', '-')}: {str(path)!r} must be an absolute path"
            raise UsageError(msg)
        return path

    driver_name = text("driver_name")
    if names.subdomain(driver_name) or len(driver_name) > MAX_DRIVER_NAME:
        msg = (
            f"--driver-name: {driver_name!r} must be a DNS subdomain of at most {MAX_DRIVER_NAME} characters,"
            " such as gpu.nvidia.com"
        )
        raise UsageError(msg)
    node_name = text("node_name")
    if names.subdomain(node_name):
        msg = f"--node-name: {node_name!r} is no name that a Node can have; it is that of `kubectl get nodes`"
        raise UsageError(msg)
    pool_name = values["pool_name"] or None
    if pool_name is not None and any(names.pool_name("", pool_name)):
        msg = f"--pool-name: {pool_name!r} must be DNS subdomains with slashes between, such as node-1/gpu"
        raise UsageError(msg)
    metrics_address = values["metrics_address"] or None
    if metrics_address is not None and not _is_address(metrics_address):
        msg = f"--metrics-address: {metrics_address!r} is not host:port, such as 127.0.0.1:8080 or :8080"
        raise UsageError(msg)
    backend = text("backend")
    if backend != "nvml" and not (backend.startswith("simulated:") and backend != "simulated:"):
        msg = f"--backend: {backend!r} is neither nvml nor simulated:PROFILE"
        raise UsageError(msg)
    return Settings(
        driver_name=driver_name,
        node_name=node_name,
        kubeconfig=Path(text("kubeconfig")) if values["kubeconfig"] else None,
        kubelet_plugins_dir=directory("kubelet_plugins_dir"),
        kubelet_registry_dir=directory("kubelet_registry_dir"),
        cdi_dir=directory("cdi_dir"),
        driver_root=PurePosixPath(directory("driver_root")) if values["driver_root"] else None,
        container_driver_root=directory("container_driver_root") if values["container_driver_root"] else None,
        host_root=directory("host_root"),
        nvidia_cdi_hook_path=str(directory("nvidia_cdi_hook_path"))
        if values["nvidia_cdi_hook_path"]
        else None,
        backend=backend,
        pool_name=pool_name,
        metrics_address=metrics_address,
        healthcheck_port=int(_number("healthcheck_port", text("healthcheck_port"), -1, 65535)),
        rescan_seconds=_number("rescan_seconds", text("rescan_seconds"), 0.1, 3600),
        log_format=text("log_format"),
        log_level=text("log_level"),
    )


def _number(key: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        msg = f"--{key.replace('_', '-')}: {text!r} must be a number from {low:g} to {high:g}"
        raise UsageError(msg)
    return value


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    whole_host = ":" not in host or (host.startswith("[") and host.endswith("]"))
    return bool(colon) and whole_host and port.isascii() and port.isdigit() and int(port) <= 65535
