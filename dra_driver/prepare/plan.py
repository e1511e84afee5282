"""From an allocation to what shall be recorded, and from a record to the CDI spec.

Nothing here changes anything. All that can be wrong with a claim or the hardware under it is found here, with
a sentence for the Pod's event, before the engine reserves or writes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dra_driver.cdi.edits import EditSource
from dra_driver.cdi.spec import CdiDevice, ContainerEdits, Spec
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.model import Device
from dra_driver.devices.snapshot import Snapshot
from dra_driver.errors import ClaimError, HardwareError, UnavailableError
from dra_driver.inventory.model import Gpu, Inventory
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare.claim import Allocation, Result
from dra_driver.prepare.config import choose_config
from dra_driver.prepare.metadata import check_names, is_pod_claim_name
from dra_driver.prepare.metadata_store import MetadataStore
from dra_driver.prepare.partitions import partition_steps, resolved
from dra_driver.prepare.record import Record, RecordedDevice, State
from dra_driver.prepare.sharing import settings, sharing_groups
from dra_driver.sharing.group import Group
from dra_driver.sharing.sharing import NodeSharing
from dra_driver.steps import NOTHING, Step, StepResult


@dataclass(frozen=True, slots=True)
class Plan:
    """The record of a claim as it will be, and the changes to the node that come before."""

    record: Record
    steps: tuple[Step, ...] = ()


class Planner:
    """The node's view of claims: what its device names stand for, and how a container gets them."""

    def __init__(
        self,
        *,
        pool_name: str,
        hardware: Callable[[], Snapshot],
        edits: EditSource,
        specs: SpecStore,
        metadata: MetadataStore,
        partitions: MigDevices | None = None,
        sharing: NodeSharing | None = None,
    ) -> None:
        self._pool_name = pool_name
        self._hardware = hardware
        self._edits = edits
        self._specs = specs
        self._metadata = metadata
        self._partitions = partitions
        self._sharing = sharing

    def plan(self, allocation: Allocation, boot_id: str) -> Plan:
        """What is to be done for the claim; ClaimError, HardwareError or UnavailableError where it cannot be."""
        check_names(allocation)
        look = self._hardware()
        found = [(result, self._find(result, look)) for result in allocation.results]
        groups = sharing_groups(allocation.ref, found, choose_config(allocation, found))
        setting = settings(groups)
        merged: dict[tuple[str, str | None], RecordedDevice] = {}
        for result, device in found:
            key = (device.name, result.share_id)
            known = merged.get(key)
            requests = known.requests if known else ()
            if result.base_request not in requests:
                requests += (result.base_request,)
            subrequests = known.subrequests if known else ()
            if result.request not in {result.base_request, *subrequests}:
                subrequests += (result.request,)
            merged[key] = RecordedDevice(
                device=device,
                pool=result.pool,
                requests=requests,
                share_id=result.share_id,
                # One result without admin access makes the claim a holder.
                admin_access=result.admin_access and (known is None or known.admin_access),
                subrequests=subrequests,
                memory=result.memory,
            )
        if setting:
            merged = {
                key: recorded
                if recorded.admin_access
                else replace(recorded, setting=setting.get(recorded.name))
                for key, recorded in merged.items()
            }
        name = allocation.pod_claim_name
        record = Record(
            allocation.ref,
            boot_id,
            State.COMPLETED,
            tuple(merged.values()),
            pod_claim_name=name if is_pod_claim_name(name) else None,
        )
        return Plan(record, tuple(self._steps(record, groups, look)))

    def _steps(self, record: Record, groups: tuple[Group, ...], look: Snapshot) -> list[Step]:
        for recorded in record.devices:  # of a GPU that is away, no step would be known
            _gpu(recorded, look)
        steps = partition_steps(record, look.inventory, self._partitions) if self._partitions else []
        if groups and self._sharing is None:
            raise ClaimError(
                f"{groups[0].path}.sharing: this node has nothing that could do it; leave it out"
            )
        steps += self._sharing.steps(groups) if self._sharing else []
        if steps:  # all else that can be wrong is found before the hardware is changed
            self._edits.now()
        return steps

    def spec(self, record: Record, steps: StepResult = NOTHING) -> Spec:
        """The CDI spec of the claim, from the hardware as it is now, with what its `steps` came to.

        HardwareError where a device is gone, sick, not what it was, or lacks what a container needs;
        UnavailableError where the hardware cannot be asked.
        """
        look, now = self._hardware(), self._edits.now()
        devices = []
        described: set[str] = set()  # requests whose metadata comes with an earlier device
        for recorded in record.devices:
            target, gpu = resolved(recorded, _gpu(recorded, look))
            edits = now.device(target, gpu, admin_access=recorded.admin_access)
            if not edits:
                raise HardwareError(
                    f"device {recorded.name} would give a container nothing; look at the NVIDIA driver's files "
                    "on the node"
                )
            new = [request for request in recorded.requests if request not in described]
            described.update(new)
            own = ContainerEdits(mounts=tuple(self._metadata.mount(record, request) for request in new))
            if recorded.name in steps.edits and not recorded.admin_access:
                own += steps.edits[recorded.name]
            name = self._specs.device_name(record.ref.uid, recorded.name, recorded.share_id)
            devices.append(CdiDevice(name, edits, own=own))
        return Spec(self._specs.kind, tuple(devices), now.common)

    def _find(self, result: Result, look: Snapshot) -> Device:
        if result.pool != self._pool_name:
            raise ClaimError(
                f"device {result.device} was allocated from pool {result.pool}, but the pool of this node is "
                f"{self._pool_name}; delete the Pod so that its claim is allocated anew"
            )
        device = look.devices.get(result.device)
        if device is not None:
            return device
        if not look.inventory.available:
            raise _unavailable(result.device, look.inventory)
        raise ClaimError(
            f"device {result.device} of pool {result.pool} does not exist on the node (any more); "
            "delete the Pod so that its claim is allocated anew"
        )


def _gpu(recorded: RecordedDevice, look: Snapshot) -> Gpu:
    """The physical GPU of a recorded device, if it can be used."""
    target = recorded.device.target
    now = look.devices.get(recorded.name)
    if now is not None and now.target.uuid != target.uuid:
        raise HardwareError(
            f"device {recorded.name} was {target.uuid} when it was prepared, and is {now.target.uuid} now; "
            "delete the Pod so that its claim is allocated anew"
        )
    # While NVML hangs, the GPUs known from before are all listed with a fault, which says nothing about them.
    if not look.inventory.available:
        raise _unavailable(recorded.name, look.inventory)
    gpu = look.inventory.gpu(target.gpu_uuid)
    if gpu is None:
        raise HardwareError(
            f"device {recorded.name} ({target.gpu_uuid}) is gone from the node; look at the node, or delete "
            "the Pod so that its claim is allocated anew"
        )
    # Looking at sick GPUs is what admin access is for, and one of them must not cost it the others.
    if gpu.fault and not recorded.admin_access:
        raise HardwareError(f"device {recorded.name} cannot be used: {gpu.fault.rstrip('.')}")
    return gpu


def _unavailable(device: str, inventory: Inventory) -> UnavailableError:
    reason = inventory.problems[0].message.rstrip(".") if inventory.problems else "NVML is not there"
    return UnavailableError(f"device {device} has to wait until the NVIDIA driver answers: {reason}")
