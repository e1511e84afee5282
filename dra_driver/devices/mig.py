"""The published form of existing MIG devices."""

from dra_driver.devices.form import MEMORY_SLICE, Form
from dra_driver.devices.gpu import memory_kind, put_common
from dra_driver.devices.model import Device, Note, Target
from dra_driver.devices.names import mig_name
from dra_driver.inventory.model import Gpu, Inventory, MigDevice


def mig_device(mig: MigDevice, gpu: Gpu, inventory: Inventory) -> tuple[Device, list[Note]]:
    """`mig` of `gpu`, with notes on what could not be published.

    Nothing on NVLink, fabric or MIG mode: a MIG device has no part in the first two, and its parent's mode
    goes without saying.
    """
    profile = mig.profile
    form = Form(mig_name(gpu, mig))
    form.attribute("type", "mig")
    form.attribute("uuid", mig.uuid)
    form.attribute("parentUUID", gpu.uuid)
    form.attribute("profile", profile.name)
    put_common(form, gpu, inventory)
    form.attribute("memoryKind", memory_kind(gpu, profile.memory_bytes))
    form.count("multiprocessors", profile.multiprocessors)
    form.count("copyEngines", profile.copy_engines)
    form.count("decoders", profile.decoders)
    form.count("encoders", profile.encoders)
    form.count("jpegEngines", profile.jpeg_engines)
    form.count("ofaEngines", profile.ofa_engines)
    form.bytes("memory", profile.memory_bytes)
    for memory_slice in range(mig.placement, mig.placement + profile.size):
        form.count(f"{MEMORY_SLICE}{memory_slice}", 1)
    form.fit()
    target = Target("mig", mig.uuid, gpu.uuid, gpu.pci_address)
    return Device(form.device, target, form.attributes, form.capacity), form.notes
