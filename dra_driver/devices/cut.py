"""What is offered of one GPU: the GPU whole, MIG devices that exist, MIG devices that Prepare makes.

* MIG devices that claims hold as partitions are offered in every mode; all others that exist are the admin's. They
  are offered as they are, and never touched.
* What does not fit beside the admin's MIG devices is not offered: nobody could make it. So a GPU with such a MIG
  device is not offered whole. If a claim was allocated what such a device was then put over, that leaves the slices
  with its counters, and cannot overdraw them.
* A GPU that is cut on demand is offered whole as long as its MIG mode could be switched off without a reset,
  whatever claims hold of it: counters, not absence, keep it from being given twice, and it does not come and go with
  every small claim.
* Where the mode that is asked for cannot be had (a reset is needed, the driver does not list the profiles), the GPU is
  offered in the mode it is in: a reset takes all GPUs of an NVSwitch board from whoever uses them, which is the
  admin's to decide. The reason is a note and an attribute.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from dra_driver.config.node import MigMode
from dra_driver.devices.counters import Board, board_of
from dra_driver.devices.model import Device, Note, NoteReason
from dra_driver.devices.names import gpu_name
from dra_driver.inventory.mig_rules import Place, misfit
from dra_driver.inventory.model import Gpu, Mig, MigDevice


class Obstacle(StrEnum):
    """The values of the attribute `migObstacle`."""

    NEEDS_RESET = "needs-reset"
    PENDING_RESET = "pending-reset"
    PROFILES_UNKNOWN = "profiles-unknown"
    MODE_OFF = "mode-off"
    MIG_DEVICES = "mig-devices"
    UNKNOWN_DEVICES = "unknown-devices"


_SENTENCES = {
    Obstacle.NEEDS_RESET: "its MIG mode cannot be switched without a reset of the GPU",
    Obstacle.PENDING_RESET: "its MIG mode changes with the next reset of the GPU",
    Obstacle.PROFILES_UNKNOWN: "the driver does not say which MIG devices it can be cut into",
    Obstacle.MODE_OFF: "its MIG mode is off; switch it on with nvidia-smi -mig 1, and create MIG devices",
    Obstacle.MIG_DEVICES: "it has MIG devices, which have to go first",
    Obstacle.UNKNOWN_DEVICES: "it has MIG devices that cannot be offered, and whose place is not known; the log says why",
}


@dataclass(frozen=True, slots=True)
class Cut:
    """What is offered of a GPU; `board` where devices share its counters."""

    whole: bool
    existing: tuple[MigDevice, ...] = ()  # of no claim's making
    partitions: tuple[Place, ...] = ()
    board: Board | None = None
    obstacle: Obstacle | None = None
    notes: tuple[Note, ...] = ()

    @property
    def taken(self) -> tuple[Place, ...]:
        return tuple(Place(device.profile, device.placement) for device in self.existing)


WHOLE = Cut(whole=True)


def cut(gpu: Gpu, mode: MigMode, held: Iterable[Device]) -> Cut:
    """What to offer of a GPU that answers; `held` are the devices that claims hold, of any GPU."""
    mig = gpu.mig
    if mig is None:
        return WHOLE
    owned = {
        (device.target.profile_id, device.target.start)
        for device in held
        if device.target.kind == "partition" and device.target.gpu_uuid == gpu.uuid
    }
    existing = tuple(each for each in mig.devices if (each.profile.id, each.placement) not in owned)
    profiles = tuple(profile for profile in mig.profiles if profile.placements and profile.size)
    board = board_of(gpu, profiles) if profiles else None
    obstacle = _obstacle(mig, mode, board)
    taken = [Place(device.profile, device.placement) for device in existing]
    on_demand = mode is MigMode.DYNAMIC and obstacle is None
    partitions = tuple(
        place
        for place in (Place(profile, start) for profile in profiles for start in profile.placements)
        if (on_demand or (place.profile.id, place.start) in owned) and not misfit(place, taken, profiles)
    )
    leaves = mode in {MigMode.DYNAMIC, MigMode.OFF} and obstacle is None and mig.switchable
    whole = not existing and not mig.hidden and (not mig.enabled or leaves)
    found = Cut(whole, existing, partitions, board if partitions else None, obstacle)
    return replace(found, notes=tuple(_notes(gpu, mig, mode, found)))


def _obstacle(mig: Mig, mode: MigMode, board: Board | None) -> Obstacle | None:
    """Why the GPU cannot be offered as `mode` wants it; None where it can, or nothing is wanted."""
    match mode:
        case MigMode.STATIC if not mig.enabled:
            return Obstacle.MODE_OFF
        case MigMode.OFF if mig.devices or mig.hidden:
            return Obstacle.MIG_DEVICES
        case MigMode.OFF if mig.enabled or mig.pending:
            return (
                Obstacle.PENDING_RESET
                if mig.pending != mig.enabled
                else None
                if mig.switchable
                else Obstacle.NEEDS_RESET
            )
        case MigMode.DYNAMIC if board is None or not board.is_publishable:
            return Obstacle.PROFILES_UNKNOWN
        case MigMode.DYNAMIC if mig.hidden:
            return Obstacle.UNKNOWN_DEVICES
        case MigMode.DYNAMIC if mig.pending != mig.enabled:
            return Obstacle.PENDING_RESET
        case MigMode.DYNAMIC if not (mig.enabled or mig.switchable):
            return Obstacle.NEEDS_RESET
    return None


def _notes(gpu: Gpu, mig: Mig, mode: MigMode, found: Cut) -> Iterable[Note]:
    name, where = gpu_name(gpu.pci_address), f"GPU {gpu.uuid} at {gpu.pci_address}"
    if mig.pending != mig.enabled:
        after = "enabled" if mig.pending else "disabled"
        yield Note(NoteReason.MIG_PENDING, name, f"MIG mode of {where} is {after} after its next reset")
    if found.obstacle is not None:
        message = f"{where} is not offered as mig: {mode} says, but as it is: {_SENTENCES[found.obstacle]}"
        yield Note(NoteReason.MIG_MODE, name, message)
    if not (found.whole or found.existing or found.partitions):
        message = (
            f"{where} is not published: it is in MIG mode and has no MIG devices; create some, or disable MIG"
        )
        yield Note(NoteReason.MIG_EMPTY, name, message)
