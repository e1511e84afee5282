"""How a simulated GPU is cut, as it stands in its file, and the lock under which processes change it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dra_driver.errors import UnavailableError
from dra_driver.inventory.mig_control import ComputeInstance, GpuInstance

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class MigState:
    """The MIG state of one GPU; `made` counts the MIG devices so far, since each gets a UUID of its own."""

    enabled: bool
    instances: tuple[GpuInstance, ...] = ()
    made: int = 0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """An exclusive lock between threads and processes; what is done under it takes milliseconds."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise UnavailableError(f"the lock {path} cannot be opened: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # not Linux: no reboot is noticed


def as_dict(state: MigState) -> dict[str, Any]:
    return {
        "bootID": boot_id(),
        "enabled": state.enabled,
        "made": state.made,
        "instances": [
            {
                "id": instance.id,
                "profile": instance.profile_id,
                "start": instance.placement,
                "size": instance.size,
                "compute": [
                    {"id": compute.id, "uuid": compute.uuid} for compute in instance.compute_instances
                ],
            }
            for instance in state.instances
        ],
    }


def from_dict(body: dict[str, Any]) -> MigState:
    instances = tuple(
        GpuInstance(
            item["id"],
            item["profile"],
            item["start"],
            item["size"],
            tuple(ComputeInstance(compute["id"], compute["uuid"]) for compute in item["compute"]),
        )
        for item in body["instances"]
    )
    return MigState(bool(body["enabled"]), instances, int(body["made"]))
