"""Which devices of a claim are shared in which way: from the configuration in force to groups of devices.

Devices under one configuration are a group, as in the official driver; MIG devices are a group each, since a CUDA process
uses only one. Shares of one device are one member, with what they consume together. Results with admin access
are left out: who looks on changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

from dra_driver.config.settings import Setting, Sharing, TimeSlicing, describe, setting_of
from dra_driver.devices.model import Device, Version
from dra_driver.errors import ConfigError
from dra_driver.prepare.claim import ClaimRef, Result
from dra_driver.prepare.config import Chosen
from dra_driver.sharing.group import Group, Member

_COMPUTE_CAPABILITY = "cudaComputeCapability"


def sharing_groups(
    ref: ClaimRef, found: Sequence[tuple[Result, Device]], chosen: Sequence[Chosen | None]
) -> tuple[Group, ...]:
    """The groups that something is set for; ConfigError where one device is to be shared in two ways."""
    asked: dict[str, tuple[Result, Chosen | None]] = {}  # by device
    members: dict[str, Member] = {}
    for (result, device), choice in zip(found, chosen, strict=True):
        if result.admin_access:
            continue
        before = asked.setdefault(device.name, (result, choice))
        if _sharing(before[1]) != _sharing(choice):
            raise ConfigError(
                f"claim {ref}: device {device.name} has {describe(_sharing(before[1]))} by request "
                f"{before[0].request}, and {describe(_sharing(choice))} by request {result.request}; give both the "
                "same, or keep them on different devices with a distinctAttribute constraint"
            )
        members[device.name] = _member(device, members.get(device.name), result.memory)
    groups: dict[str, tuple[Sharing, str, list[Member]]] = {}
    for name, (_, choice) in asked.items():
        sharing, member = _sharing(choice), members[name]
        if choice is None or sharing is None or (isinstance(sharing, TimeSlicing) and not member.is_gpu):
            continue
        key = choice.entry.path if member.is_gpu else f"{choice.entry.path} {name}"
        groups.setdefault(key, (sharing, choice.entry.path, []))[2].append(member)
    return tuple(Group(path, sharing, tuple(of)) for sharing, path, of in groups.values())


def settings(groups: Iterable[Group]) -> Mapping[str, Setting]:
    """What other claims with shares of the same devices have to agree with, by device."""
    return {
        member.name: setting_of(group.setting, [other.name for other in group.members])
        for group in groups
        for member in group.members
    }


def _sharing(choice: Chosen | None) -> Sharing | None:
    return None if choice is None else choice.config.sharing


def _member(device: Device, before: Member | None, memory: int | None) -> Member:
    if before is not None and before.memory is not None:
        memory = before.memory + (memory or 0)
    version = device.attributes.get(_COMPUTE_CAPABILITY)
    capability = tuple(map(int, version.text.split("."))) if isinstance(version, Version) else None
    return Member(device.name, device.target, capability, memory)
