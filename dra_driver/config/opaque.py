"""Strict decoding of opaque parameters, of the kinds that manifests for the official driver use.

What is accepted is accepted in full: a field that has no effect here is refused with its JSON path, rather
than leave a Pod running with less than it asked for. So far that leaves a GpuConfig or a MigDeviceConfig
without settings, which is what their defaults are. Only top-level keys are looked at, so the time does not
depend on the size of what a user wrote.
"""

from collections.abc import Mapping
from enum import StrEnum

from dra_driver.errors import ConfigError

API_VERSION = "resource.nvidia.com/v1beta1"

_UNSUPPORTED = {
    "VfioDeviceConfig": "GPUs are not passed through to virtual machines",
    "ComputeDomainChannelConfig": "ComputeDomains are not supported",
    "ComputeDomainDaemonConfig": "ComputeDomains are not supported",
}


class ConfigKind(StrEnum):
    """A kind of configuration, by the type of device that it is for."""

    GPU = "GpuConfig"
    MIG = "MigDeviceConfig"

    @property
    def device_type(self) -> str:
        return "gpu" if self is ConfigKind.GPU else "mig"


def decode(parameters: object, path: str) -> ConfigKind:
    """What `parameters`, found at the JSON path `path`, configure; ConfigError where that is not possible."""
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"{path} must be an object with apiVersion {API_VERSION} and a kind")
    kind, version = parameters.get("kind"), parameters.get("apiVersion")
    if isinstance(kind, str) and kind in _UNSUPPORTED:
        raise ConfigError(f"{path}.kind: {kind} cannot be used with this driver: {_UNSUPPORTED[kind]}")
    if version != API_VERSION:
        raise ConfigError(f"{path}.apiVersion: expected {API_VERSION}, not {_shown(version)}")
    if not isinstance(kind, str) or kind not in set(ConfigKind):
        raise ConfigError(
            f"{path}.kind: expected {' or '.join(ConfigKind)}, not {_shown(kind)}",
        )
    for key, value in parameters.items():
        if key == "sharing":
            if value is not None:
                raise ConfigError(f"{path}.sharing: sharing settings are not supported yet; leave them out")
        elif key not in {"apiVersion", "kind"}:
            raise ConfigError(f"{path}: {kind} has no field {_shown(key)}")
    return ConfigKind(kind)


def _shown(value: object) -> str:
    """A user's value, short enough for an event."""
    return repr(value)[:64] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
