"""The published form of MIG devices: those that exist, and partitions, which Prepare makes.

Both have the same name for the same place, since for a claim there is no difference. A partition has no UUID before it
is made, and no memory slices among its capacities, as in the official driver: they are counters.
"""

from dra_driver.config.node import Shares
from dra_driver.devices.cut import Cut
from dra_driver.devices.form import MEMORY_SLICE, Form
from dra_driver.devices.gpu import memory_kind, put_common
from dra_driver.devices.model import Device, Note, Target
from dra_driver.devices.names import mig_name
from dra_driver.inventory.mig_rules import Place
from dra_driver.inventory.model import ENGINES, Gpu, Inventory, MigDevice


def mig_device(
    mig: MigDevice, gpu: Gpu, inventory: Inventory, cut: Cut, shares: Shares
) -> tuple[Device, list[Note]]:
    """`mig` of `gpu`, which exists, with notes on what could not be published."""
    form = _form(Place(mig.profile, mig.placement), gpu, inventory, mig.uuid)
    form.attribute("migObstacle", cut.obstacle)
    for memory_slice in range(mig.placement, mig.placement + mig.profile.size):
        form.count(f"{MEMORY_SLICE}{memory_slice}", 1)
    target = Target("mig", mig.uuid, gpu.uuid, gpu.pci_address)
    return form.device_of(target, shares=shares), form.notes


def partition_device(
    place: Place, gpu: Gpu, inventory: Inventory, cut: Cut, shares: Shares
) -> tuple[Device, list[Note]]:
    """The MIG device that can be made at `place` of `gpu`, with notes on what could not be published."""
    form = _form(place, gpu, inventory)
    target = Target("partition", "", gpu.uuid, gpu.pci_address, place.profile.id, place.start)
    consumes = () if cut.board is None else (cut.board.of(place),)
    return form.device_of(target, shares=shares, consumes=consumes), form.notes


def _form(place: Place, gpu: Gpu, inventory: Inventory, uuid: str | None = None) -> Form:
    """What both have in common.

    Nothing on NVLink, fabric or MIG mode: a MIG device has no part in the first two, and its parent's mode
    goes without saying.
    """
    profile = place.profile
    form = Form(mig_name(gpu, place))
    form.attribute("type", "mig")
    form.attribute("uuid", uuid)
    form.attribute("parentUUID", gpu.uuid)
    form.attribute("profile", profile.name)
    put_common(form, gpu, inventory)
    form.attribute("memoryKind", memory_kind(gpu, profile.memory_bytes))
    form.count("multiprocessors", profile.multiprocessors)
    for name, field in ENGINES.items():
        form.count(name, getattr(profile, field))
    form.bytes("memory", profile.memory_bytes)
    return form
