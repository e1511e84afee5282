"""The check of a claim's configuration, before anything is done for it.

Every entry that applies to one of our devices is decoded, also one that a later entry overrides: a claim with
a mistake in it is refused whole. Entries for an alternative of `firstAvailable` that was not chosen are not
looked at, since they may be meant for another type of device.
"""

from collections.abc import Iterable

from dra_driver.config.opaque import ConfigKind, decode
from dra_driver.devices.model import Device
from dra_driver.errors import ConfigError
from dra_driver.prepare.claim import Allocation, ConfigEntry, Result


def check_config(allocation: Allocation, devices: Iterable[tuple[Result, Device]]) -> None:
    """ConfigError where an entry is wrong, or names a request whose device is of another type."""
    if not allocation.configs:
        return
    decoded = [
        (entry, decode(entry.parameters, entry.path))
        for entry in allocation.configs
        if any(entry.applies_to(result) for result in allocation.results)
    ]
    for result, device in devices:
        _config_of(result, device, decoded)


def _config_of(
    result: Result, device: Device, decoded: list[tuple[ConfigEntry, ConfigKind]]
) -> ConfigKind | None:
    """The configuration that is in force: the last that names the request, or is for all of this type."""
    for entry, kind in reversed(decoded):
        fits = kind.device_type == device.target.kind
        if entry.names(result):
            if not fits:
                raise ConfigError(
                    f"{entry.path}: a {kind} cannot be applied to device {device.name} of request "
                    f"{result.request}, which is of type {device.target.kind}"
                )
            return kind
        if not entry.requests and fits:
            return kind
    return None
