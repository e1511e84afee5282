"""Which claim holds which hardware, so that none is given out twice.

The scheduler sees to that; this is the last check behind it, for claims that were deleted by force while
their Pod still runs, and for schedulers with a bug (kubernetes/kubernetes#140806). Identity is the hardware's
and the device's name; a whole GPU also clashes with a partition of it, and partitions with those that have memory
slices in common.

Claims that share a device have to agree on its settings, which are the hardware's: the second one is refused where
they do not, rather than change what the first runs on.

Devices are reserved before anything is done with them, so that of two Prepares at the same time one loses.
Claims with admin access are not kept here: they take nothing from others, and nothing blocks them.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from dra_driver.devices.memory_slices import have_slices_in_common
from dra_driver.errors import ConflictError
from dra_driver.prepare.claim import ClaimRef
from dra_driver.prepare.record import RecordedDevice


@dataclass(frozen=True, slots=True)
class _Hold:
    ref: ClaimRef
    device: RecordedDevice


class Conflicts:
    """The index of held devices. A call looks at the holders of the same GPUs, not at all claims."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # guards both; nothing is waited for under it
        self._holds: dict[str, list[_Hold]] = {}  # by GPU UUID and by device name
        self._keys: dict[str, set[str]] = {}  # of each claim

    def reserve(self, ref: ClaimRef, devices: Iterable[RecordedDevice]) -> None:
        """Give all of the devices to the claim; ConflictError, and none given, where another holds one."""
        wanted = [device for device in devices if not device.admin_access]
        with self._mutex:
            for device in wanted:
                for key in _keys(device):
                    for hold in self._holds.get(key, ()):
                        if hold.ref.uid == ref.uid:
                            continue
                        if _clash(device, hold.device):
                            raise ConflictError(_sentence(ref, device, hold))
                        if not _agree(device, hold.device):
                            raise ConflictError(_disagreement(ref, device, hold))
            self._add(ref, wanted)

    def restore(self, ref: ClaimRef, devices: Iterable[RecordedDevice]) -> None:
        """Note what a record says, which is a fact already."""
        with self._mutex:
            self._add(ref, [device for device in devices if not device.admin_access])

    def release(self, claim_uid: str) -> None:
        """The claim holds nothing any more."""
        with self._mutex:
            self._remove(claim_uid)

    def _add(self, ref: ClaimRef, devices: list[RecordedDevice]) -> None:
        self._remove(ref.uid)
        for device in devices:
            for key in _keys(device):
                self._holds.setdefault(key, []).append(_Hold(ref, device))
                self._keys.setdefault(ref.uid, set()).add(key)

    def _remove(self, claim_uid: str) -> None:
        for key in self._keys.pop(claim_uid, ()):
            rest = [hold for hold in self._holds[key] if hold.ref.uid != claim_uid]
            if rest:
                self._holds[key] = rest
            else:
                del self._holds[key]


def _keys(device: RecordedDevice) -> tuple[str, str]:
    return device.device.target.gpu_uuid, device.name


def _clash(wanted: RecordedDevice, held: RecordedDevice) -> bool:
    one, other = wanted.device.target, held.device.target
    if wanted.name == held.name or (one.uuid and one.uuid == other.uuid):
        both_shared = wanted.share_id is not None and held.share_id is not None
        return not both_shared or wanted.share_id == held.share_id
    return have_slices_in_common(wanted.device, held.device)


def _agree(wanted: RecordedDevice, held: RecordedDevice) -> bool:
    """Whether the settings for what both use can be in force together."""
    if wanted.name != held.name:
        return True
    one, other = wanted.setting, held.setting
    return (one is None or one.agrees_with(other)) and (other is None or other.agrees_with(one))


def _disagreement(ref: ClaimRef, wanted: RecordedDevice, hold: _Hold) -> str:
    theirs, ours = (s.text if s else "no sharing settings" for s in (hold.device.setting, wanted.setting))
    return (
        f"device {wanted.name} is shared with claim {hold.ref}, which has it with {theirs}, and claim {ref} asks for "
        f"{ours}; give both the same settings, or wait until the Pods of {hold.ref} are gone"
    )


def _sentence(ref: ClaimRef, wanted: RecordedDevice, hold: _Hold) -> str:
    what = f"device {wanted.name}"
    if hold.device.name != wanted.name:
        what += f" cannot be prepared: {hold.device.name} of the same GPU"
    if str(hold.ref) == str(ref):
        holder = f"an earlier claim {hold.ref} (UID {hold.ref.uid})"
    else:
        holder = f"claim {hold.ref}"
    return (
        f"{what} is held by {holder}, whose Pods have to be gone from the node before claim {ref} can have it"
    )
