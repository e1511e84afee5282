"""Which GPUs of a node reach each other over NVLink.

A claim says "two GPUs of one clique" with `matchAttribute`, so the clique of a GPU is a value that is equal
exactly for the GPUs that it reaches:

* where a multi-node fabric is up, the fabric's own `<cluster uuid>.<clique id>`, shared by all its nodes;
* else the island of the node: GPUs connected by links to each other or to common NVSwitches, directly or
  through further GPUs (NCCL routes so). Its value is the lowest PCI address in it;
* a GPU without NVLink is an island of one, and so is a GPU in MIG mode: its links may well be up, but no MIG
  device can use them (every GPU instance profile says isP2pSupported = 0).

No value at all is the answer where it would be a guess: link state that cannot be read, links of which no
far end is told, and a GPU that is lost. Such a GPU takes no part in the islands of others either, so when
the lowest address of an island is lost, its value changes; claims compare cliques only while they are being
allocated.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dra_driver.inventory.model import Gpu, NvLink, RemoteType

# Prefix of switches in the graph. Those of NVLink 5 have no PCI address on the node: to all GPUs that link to
# them they are one.
_SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class Clique:
    """The NVLink neighbourhood of a GPU."""

    id: str
    peers: int  # other GPUs of this node in it


def nvlink_cliques(gpus: Iterable[Gpu]) -> Mapping[str, Clique | None]:
    """The clique of every GPU of a node by UUID; None where it cannot be told."""
    gpus = tuple(gpus)
    ids = {gpu.uuid: _fabric_id(gpu) for gpu in gpus}
    local = [gpu for gpu in gpus if ids[gpu.uuid] is None and gpu.fault is None]
    ids |= _islands(local)
    sizes = Counter(ids.values())
    return {uuid: None if id_ is None else Clique(id_, sizes[id_] - 1) for uuid, id_ in ids.items()}


def _fabric_id(gpu: Gpu) -> str | None:
    if gpu.fabric is None or gpu.fault is not None or _in_mig_mode(gpu):
        return None
    return f"{gpu.fabric.cluster_uuid}.{gpu.fabric.clique_id}"


def _in_mig_mode(gpu: Gpu) -> bool:
    return gpu.mig is not None and gpu.mig.enabled


def _islands(gpus: Iterable[Gpu]) -> dict[str, str | None]:
    """The island of each GPU as its lowest PCI address; None for those of unknown reach."""
    linked = {gpu.pci_address: gpu for gpu in gpus if gpu.nvlinks is not None or _in_mig_mode(gpu)}
    islands = _DisjointSets(linked)
    unknown = {gpu.uuid for gpu in gpus if gpu.pci_address not in linked}
    for address, gpu in linked.items():
        links = () if _in_mig_mode(gpu) or gpu.nvlinks is None else gpu.nvlinks
        ends = {end for link in links if (end := _far_end(link, linked)) is not None}
        for end in ends:
            islands.join(address, end)
        if not ends and any(_is_untold(link) for link in links):
            unknown.add(gpu.uuid)
    members: dict[str, list[str]] = {}
    for address in linked:
        members.setdefault(islands.find(address), []).append(address)
    # An address reads "domain:bus:device.function" in hexadecimal, the domain with four digits or more.
    lowest = {root: min(group, key=lambda a: (len(a), a)) for root, group in members.items()}
    return {gpu.uuid: None if gpu.uuid in unknown else lowest[islands.find(gpu.pci_address)] for gpu in gpus}


def _far_end(link: NvLink, gpus: Mapping[str, Gpu]) -> str | None:
    """The node of the graph that a link leads to; None for GPUs that are not here, in MIG mode or unread."""
    address = link.remote_pci_address
    if link.remote is RemoteType.SWITCH:
        return f"{_SWITCH} {address}"
    peer = None if address is None else gpus.get(address)
    return None if peer is None or _in_mig_mode(peer) else peer.pci_address


def _is_untold(link: NvLink) -> bool:
    return link.remote is RemoteType.UNKNOWN or (
        link.remote is RemoteType.GPU and link.remote_pci_address is None
    )


class _DisjointSets:
    """Union-find over PCI addresses of GPUs and switches."""

    def __init__(self, items: Iterable[str]) -> None:
        self._parent = {item: item for item in items}

    def find(self, item: str) -> str:
        self._parent.setdefault(item, item)
        while (parent := self._parent[item]) != item:
            item = parent
        return item

    def join(self, one: str, other: str) -> None:
        self._parent[self.find(one)] = self.find(other)
