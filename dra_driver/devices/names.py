"""Names of devices: made from where the hardware sits, so that they outlive driver reloads and re-enumeration.

Indices and minor numbers change when a GPU drops off the bus; an allocation by such a name would then mean
another GPU. A PCI address stays. A MIG device has its profile and placement in its name, so that it gets the
same name when it is made again.
"""

import re

from dra_driver.inventory.mig_rules import Place
from dra_driver.inventory.model import Gpu
from dra_driver.resource.limits import MAX_LABEL

DRIVER_NAME = "gpu.nvidia.com"
"""The official driver's name, so that its users' manifests keep working; a flag changes it."""


def gpu_name(pci_address: str) -> str:
    """0000:65:00.0 -> gpu-0000-65-00-0."""
    return f"gpu-{_label(pci_address)}"


def mig_name(gpu: Gpu, place: Place) -> str:
    """gpu-0000-65-00-0-mig-1g-5gb-19-0: profile, profile id, first memory slice.

    The profile id tells 1g.24gb+me from 1g.24gb-me, which are written alike in a DNS label; so a profile of
    undue length may be cut.
    """
    parent, placed = gpu_name(gpu.pci_address), f"{place.profile.id}-{place.start}"
    room = MAX_LABEL - len(f"{parent}-mig--{placed}")
    profile = _label(place.profile.name)[:room].rstrip("-")
    return "-".join(filter(None, (parent, "mig", profile, placed)))


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "-", text.lower()).strip("-")
