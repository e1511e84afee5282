"""Claims and MIG devices that are made for them: the steps that they need, and what became of them.

A claim that was given a whole GPU needs a step only while that GPU is in MIG mode. Admin access makes and switches
nothing: to a partition it gives the GPU that the partition is cut from, for that is what there is to look at.
"""

from collections.abc import Mapping
from dataclasses import replace

from dra_driver.devices.model import Target
from dra_driver.errors import HardwareError
from dra_driver.inventory.model import Gpu, Inventory, MigDevice, MigProfile
from dra_driver.partitions.mig_device import LeaveMigMode, MakeMigDevice, MigDevices
from dra_driver.prepare.record import Record, RecordedDevice
from dra_driver.steps import Partition, Step


def partition_steps(record: Record, inventory: Inventory, devices: MigDevices) -> list[Step]:
    """What has to be done before the claim's devices are there."""
    steps: dict[str, Step] = {}  # by device: shares of one are one MIG device
    for recorded in record.devices:
        gpu, target = inventory.gpu(recorded.device.target.gpu_uuid), recorded.device.target
        if recorded.admin_access or gpu is None or gpu.mig is None:
            continue
        if target.kind == "gpu" and gpu.mig.enabled:
            steps[recorded.name] = LeaveMigMode(devices, recorded.name, gpu.uuid)
        elif target.kind == "partition" and target.start is not None:
            profile = _profile(recorded, gpu)
            steps[recorded.name] = MakeMigDevice(devices, recorded.name, gpu.uuid, profile, target.start)
    return list(steps.values())


def resolved(recorded: RecordedDevice, gpu: Gpu) -> tuple[Target, Gpu]:
    """What a recorded device is on `gpu` now, and the GPU with it; as they are, but for partitions."""
    target = recorded.device.target
    if target.kind != "partition":
        return target, gpu
    if recorded.admin_access:
        return Target("gpu", gpu.uuid, gpu.uuid, gpu.pci_address), gpu
    made = recorded.partition
    if made is None or target.start is None or gpu.mig is None:
        raise HardwareError(
            f"device {recorded.name} cannot be given to a container: the driver says nothing of MIG on its GPU {gpu.uuid} "
            "now; look at nvidia-smi -q on the node, or delete the Pod so that its claim is allocated anew"
        )
    device = MigDevice(
        made.uuid, made.gpu_instance, made.compute_instance, _profile(recorded, gpu), target.start
    )
    # The last look at the hardware may be older than the device.
    return Target("mig", made.uuid, gpu.uuid, gpu.pci_address), replace(
        gpu, mig=replace(gpu.mig, devices=(device,))
    )


def with_partitions(record: Record, made: Mapping[str, Partition]) -> Record:
    """The record with the MIG devices that were made for its devices."""
    devices = tuple(
        replace(recorded, partition=made[recorded.name])
        if recorded.name in made and not recorded.admin_access
        else recorded
        for recorded in record.devices
    )
    return replace(record, devices=devices)


def _profile(recorded: RecordedDevice, gpu: Gpu) -> MigProfile:
    profile_id = recorded.device.target.profile_id
    for profile in gpu.mig.profiles if gpu.mig else ():
        if profile.id == profile_id:
            return profile
    raise HardwareError(
        f"device {recorded.name} cannot be made: the driver does not list MIG profile {profile_id} of GPU {gpu.uuid}; "
        "delete the Pod so that its claim is allocated anew"
    )
