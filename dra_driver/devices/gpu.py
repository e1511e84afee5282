"""The published form of whole GPUs, and what MIG devices share with their parent."""

from dra_driver.config.node import Shares
from dra_driver.devices.cut import WHOLE, Cut
from dra_driver.devices.form import NUMA_NODE, PCI_BUS_ID, PCIE_ROOT, Form
from dra_driver.devices.model import Device, Note, Target, Version
from dra_driver.devices.names import gpu_name
from dra_driver.inventory.model import Gpu, Inventory
from dra_driver.inventory.topology import Clique
from dra_driver.versions import cuda_semver, driver_semver

# Systems on a chip, whose GPU has no memory but the CPU's: Jetson TX1, TX2, Xavier and Orin, Thor, GB10. NVML has no
# call that says so; a missing memory figure alone may also be a missing permission.
_INTEGRATED = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})


def gpu_device(
    gpu: Gpu, inventory: Inventory, clique: Clique | None, cut: Cut = WHOLE, shares: Shares = "none"
) -> tuple[Device, list[Note]]:
    """`gpu` as one device, with notes on what could not be published."""
    form = Form(gpu_name(gpu.pci_address))
    form.attribute("type", "gpu")
    form.attribute("uuid", gpu.uuid)
    put_common(form, gpu, inventory)
    form.attribute("memoryKind", memory_kind(gpu, gpu.memory_bytes))
    form.attribute("migCapable", gpu.mig is not None)
    # As a claim gets it: whole GPUs are never given in MIG mode, and one that knows none is not in it.
    form.attribute("migMode", "disabled")
    form.attribute("migObstacle", cut.obstacle)
    if clique is not None:
        form.attribute("nvlinkClique", clique.id)
        form.attribute("nvlinkPeers", clique.peers)
    if gpu.fabric is not None:
        form.attribute("fabricClusterUUID", gpu.fabric.cluster_uuid)
        form.attribute("fabricCliqueID", gpu.fabric.clique_id)
    form.bytes("memory", gpu.memory_bytes)
    form.count("multiprocessors", gpu.multiprocessors or None)
    target = Target("gpu", gpu.uuid, gpu.uuid, gpu.pci_address)
    consumes = () if cut.board is None else (cut.board.all(),)
    return form.device_of(target, shares=shares, consumes=consumes), form.notes


def put_common(form: Form, gpu: Gpu, inventory: Inventory) -> None:
    """What the hardware, the driver and the place of a GPU say of it and of its MIG devices alike."""
    form.attribute("productName", gpu.name)
    form.attribute("brand", gpu.brand)
    form.attribute("architecture", gpu.architecture)
    if gpu.compute_capability is not None:
        major, minor = gpu.compute_capability
        form.attribute("cudaComputeCapability", Version(f"{major}.{minor}.0"))
    driver = inventory.driver_version
    form.version("driverVersion", driver_semver(driver or ""), driver)
    form.attribute("driverVersionString", driver)
    if inventory.cuda_driver_version is not None:
        form.attribute("cudaDriverVersion", Version(cuda_semver(inventory.cuda_driver_version)))
    form.attribute("addressingMode", gpu.addressing_mode)
    form.attribute(PCI_BUS_ID, gpu.pci_address)
    form.attribute(PCIE_ROOT, gpu.pcie_root)
    if gpu.numa_node is not None and gpu.numa_node >= 0:
        form.attribute(NUMA_NODE, gpu.numa_node)


def memory_kind(gpu: Gpu, memory_bytes: int | None) -> str | None:
    """Whether memory is the GPU's own; None where neither the GPU's kind nor a figure of it tells."""
    if gpu.compute_capability in _INTEGRATED:
        return "unified"
    return "dedicated" if memory_bytes else None
