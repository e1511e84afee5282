"""The NVLinks of a simulated node, from the groups under its profile's `nvlink:` key.

A group says how its GPUs are joined, so that both ends of a link always agree: `switch` deals each GPU's links
out over the NVSwitches in turn (18 over 4 gives 5, 5, 4, 4, as on HGX H100), `bridge` joins each GPU directly
with each other one of the group, `unreadable` stands for GPUs whose driver does not tell the state of links.
"""

from dra_driver.inventory.document import Value
from dra_driver.inventory.model import NvLink, RemoteType, pci_address

MAX_LINKS = 36  # NVML_NVLINK_MAX_LINKS


def read_pci_address(value: Value) -> str:
    """A PCI address, as `pci_address` takes it."""
    address = pci_address(value.content)
    if address is None:
        value.fail("a PCI address such as 0000:65:00.0")
    return address


def read_links(groups: Value | None, gpus: list[str]) -> dict[str, tuple[NvLink, ...] | None]:
    """The links of each GPU of `gpus` (PCI addresses): () where it is in no group, None where unreadable."""
    remotes: dict[str, list[tuple[RemoteType, str | None]]] = {gpu: [] for gpu in gpus}
    unreadable: set[str] = set()
    for group in groups.items() if groups is not None else ():
        via = group.mapping().get("via", group)
        kind = via.choice(["switch", "bridge", "unreadable"])
        if kind == "unreadable":
            unreadable.update(_members(group.fields(["via", "gpus"])["gpus"], gpus))
            continue
        fields = group.fields(["via", "gpus", "links"], ["switches"] if kind == "switch" else [])
        members = _members(fields["gpus"], gpus)
        count = fields["links"].integer(1, MAX_LINKS, "a number of links")
        if kind == "switch":
            ends: list[str | None] = [*_switches(fields.get("switches"), gpus)] or [None]
            for gpu in members:
                remotes[gpu] += [(RemoteType.SWITCH, ends[i % len(ends)]) for i in range(count)]
        else:
            if len(members) < 2 or count % (len(members) - 1):
                fields["links"].reject(
                    f"expected the {count} links of a GPU to divide evenly over its peers in the group"
                )
            for gpu in members:
                peers = [peer for peer in members if peer != gpu]
                remotes[gpu] += [(RemoteType.GPU, peers[i % len(peers)]) for i in range(count)]
        for gpu in members:
            if len(remotes[gpu]) > MAX_LINKS:
                group.reject(f"expected at most {MAX_LINKS} links a GPU, found {len(remotes[gpu])} of {gpu}")
    return {
        gpu: None if gpu in unreadable else tuple(NvLink(i, kind, end) for i, (kind, end) in enumerate(ends))
        for gpu, ends in remotes.items()
    }


def _members(value: Value, gpus: list[str]) -> list[str]:
    if value.content == "all":
        return gpus
    members: list[str] = []
    for item in value.items():
        address = read_pci_address(item)
        if address not in gpus:
            item.reject(f"expected the PCI address of a GPU of this profile, found {address}")
        if address in members:
            item.reject(f"{address} is in the group twice")
        members.append(address)
    return members


def _switches(value: Value | None, gpus: list[str]) -> list[str]:
    addresses: list[str] = []
    for item in value.items() if value is not None else ():
        address = read_pci_address(item)
        if address in gpus or address in addresses:
            item.reject(f"expected a PCI address of its own for the switch, found {address} again")
        addresses.append(address)
    return addresses
