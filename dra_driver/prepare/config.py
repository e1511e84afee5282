"""Which configuration is in force for each device of a claim; all of it checked before anything is done.

Every entry that applies to one of our devices is decoded, also one that a later entry overrides: a claim with
a mistake in it is refused whole. Entries for an alternative of `firstAvailable` that was not chosen are not
looked at, since they may be meant for another type of device.

Precedence, lowest first: defaults, the class, the claim; later entries before earlier ones. An entry that names
a request (`req`, also for `req/sub`) must fit its device; one for all requests is passed over where it does
not. API servers before 1.37 may repeat an entry: the last of the copies wins, which is the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dra_driver.config.opaque import decode
from dra_driver.config.settings import Config
from dra_driver.devices.model import Device
from dra_driver.errors import ConfigError
from dra_driver.prepare.claim import Allocation, ConfigEntry, Result


@dataclass(frozen=True, slots=True)
class Chosen:
    """A configuration in force; devices with the same entry are configured together."""

    entry: ConfigEntry
    config: Config


def choose_config(
    allocation: Allocation, devices: Iterable[tuple[Result, Device]]
) -> tuple[Chosen | None, ...]:
    """The configuration of each of `devices`; None: the defaults, which set nothing.

    ConfigError where an entry is wrong, or names a request whose device is of another type.
    """
    decoded = [
        Chosen(entry, decode(entry.parameters, entry.path))
        for entry in allocation.configs
        if any(entry.applies_to(result) for result in allocation.results)
    ]
    return tuple(_chosen(result, device, decoded) for result, device in devices)


def _chosen(result: Result, device: Device, decoded: list[Chosen]) -> Chosen | None:
    kind = (
        "gpu" if device.target.kind == "gpu" else "mig"
    )  # whether it exists already or is made for the claim
    for chosen in reversed(decoded):
        fits = chosen.config.device_type == kind
        if chosen.entry.names(result):
            if not fits:
                raise ConfigError(
                    f"{chosen.entry.path}: a {chosen.config} cannot be applied to device {device.name} of request "
                    f"{result.request}, which is of type {kind}"
                )
            return chosen
        if not chosen.entry.requests and fits:
            return chosen
    return None
