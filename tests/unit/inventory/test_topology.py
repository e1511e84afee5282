"""NVLink cliques of the machines that exist, and of links that are broken or untold."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.inventory.model import Fabric, Gpu, Mig, NvLink, RemoteType
from dra_driver.inventory.topology import Clique, nvlink_cliques


def gpu(bus: int, *links: NvLink, domain: int = 0) -> Gpu:
    address = f"{domain:04x}:{bus:02x}:00.0"
    return Gpu(f"GPU-{address}", address, 0, 0, "NVIDIA", None, None, None, None, nvlinks=links)


def to_gpu(bus: int | None) -> NvLink:
    return NvLink(0, RemoteType.GPU, None if bus is None else f"0000:{bus:02x}:00.0")


def to_switch(bus: int | None) -> NvLink:
    return NvLink(0, RemoteType.SWITCH, None if bus is None else f"0000:{bus:02x}:00.0")


UNTOLD = NvLink(0, RemoteType.UNKNOWN, None)


def cliques(*gpus: Gpu) -> list[tuple[str, int] | None]:
    """(id, peers) of each GPU in the given order."""
    found = nvlink_cliques(gpus)
    return [None if (clique := found[each.uuid]) is None else (clique.id, clique.peers) for each in gpus]


def test_the_gpus_of_an_nvswitch_board_are_one_island() -> None:
    board = [gpu(bus, *(to_switch(s) for s in range(0xC0, 0xC6))) for bus in (0x0F, 0x07, 0x47, 0x4E)]
    assert cliques(*board) == [("0000:07:00.0", 3)] * 4


def test_switches_without_an_address_are_one_fabric_of_the_node() -> None:
    assert cliques(*(gpu(bus, *[to_switch(None)] * 18) for bus in range(1, 9))) == [("0000:01:00.0", 7)] * 8


def test_boards_that_share_no_switch_are_islands_of_their_own() -> None:
    one, other = [gpu(1, to_switch(0xC1)), gpu(2, to_switch(0xC1))], [gpu(3, to_switch(0xC2))]
    assert cliques(*one, *other) == [("0000:01:00.0", 1), ("0000:01:00.0", 1), ("0000:03:00.0", 0)]


def test_switch_sets_that_overlap_are_one_island() -> None:
    chain = [gpu(1, to_switch(0xC1)), gpu(2, to_switch(0xC1), to_switch(0xC2)), gpu(3, to_switch(0xC2))]
    assert cliques(*chain) == [("0000:01:00.0", 2)] * 3


def test_bridges_make_pairs() -> None:
    pairs = [gpu(1, to_gpu(2)), gpu(2, to_gpu(1)), gpu(3, to_gpu(4)), gpu(4, to_gpu(3))]
    assert cliques(*pairs) == [("0000:01:00.0", 1)] * 2 + [("0000:03:00.0", 1)] * 2


def test_a_cube_mesh_is_one_island_though_not_all_pairs_are_linked() -> None:
    ring = [gpu(1, to_gpu(2), to_gpu(4)), gpu(2, to_gpu(1)), gpu(3, to_gpu(4)), gpu(4, to_gpu(1), to_gpu(3))]
    assert cliques(*ring) == [("0000:01:00.0", 3)] * 4


def test_gpus_without_nvlink_are_alone() -> None:
    assert cliques(gpu(1), gpu(2)) == [("0000:01:00.0", 0), ("0000:02:00.0", 0)]


def test_a_fabric_gives_its_own_name_and_counts_this_node_s_gpus() -> None:
    tray = [
        replace(gpu(1, to_switch(None), domain=domain), fabric=Fabric("uuid", 7)) for domain in (8, 9, 24, 25)
    ]
    assert cliques(*tray) == [("uuid.7", 3)] * 4


def test_cliques_of_one_fabric_are_apart() -> None:
    one, other = (replace(gpu(bus, to_switch(None)), fabric=Fabric("uuid", bus)) for bus in (1, 2))
    assert cliques(one, other) == [("uuid.1", 0), ("uuid.2", 0)]


def test_a_fabric_is_enough_where_links_cannot_be_read() -> None:
    assert cliques(replace(gpu(1), nvlinks=None, fabric=Fabric("uuid", 1))) == [("uuid.1", 0)]


def test_a_gpu_outside_the_fabric_is_not_in_its_clique() -> None:
    inside = [replace(gpu(bus, to_switch(None)), fabric=Fabric("uuid", 1)) for bus in (1, 2)]
    assert cliques(*inside, gpu(3, to_switch(None))) == [("uuid.1", 1), ("uuid.1", 1), ("0000:03:00.0", 0)]


def test_link_state_that_cannot_be_read_leaves_the_clique_out() -> None:
    unread = replace(gpu(2), nvlinks=None)
    assert cliques(gpu(1, to_gpu(2)), unread, gpu(3)) == [("0000:01:00.0", 0), None, ("0000:03:00.0", 0)]


@pytest.mark.parametrize("link", [UNTOLD, to_gpu(None), replace(UNTOLD, remote_pci_address="0000:99:00.0")])
def test_links_of_which_no_far_end_is_told_leave_the_clique_out(link: NvLink) -> None:
    assert cliques(gpu(1, link), gpu(2)) == [None, ("0000:02:00.0", 0)]


def test_an_unknown_kind_of_far_end_counts_where_its_address_is_a_gpu_s() -> None:
    link = NvLink(0, RemoteType.UNKNOWN, "0000:02:00.0")
    assert cliques(gpu(1, link, UNTOLD), gpu(2)) == [("0000:01:00.0", 1)] * 2


def test_a_link_to_a_gpu_of_another_vm_leads_nowhere() -> None:
    assert cliques(gpu(1, to_gpu(0x99))) == [("0000:01:00.0", 0)]


def test_a_gpu_in_mig_mode_is_alone_and_the_others_do_not_count_it() -> None:
    mig = replace(gpu(1, to_switch(0xC1)), mig=Mig(enabled=True, pending=True), fabric=Fabric("uuid", 1))
    others = [gpu(2, to_switch(0xC1), to_gpu(1)), gpu(3, to_switch(0xC1))]
    assert cliques(mig, *others) == [("0000:01:00.0", 0), ("0000:02:00.0", 1), ("0000:02:00.0", 1)]


def test_a_gpu_capable_of_mig_is_linked_until_the_mode_is_on() -> None:
    pair = [replace(gpu(1, to_gpu(2)), mig=Mig(enabled=False, pending=True)), gpu(2, to_gpu(1))]
    assert cliques(*pair) == [("0000:01:00.0", 1)] * 2


def test_a_lost_gpu_has_no_clique_and_is_nobody_s_peer() -> None:
    lost = replace(gpu(1, to_switch(None)), fault="lost")
    fabric = replace(gpu(4), fault="lost", fabric=Fabric("uuid", 1))
    others = [gpu(bus, to_switch(None)) for bus in (2, 3)]
    assert cliques(lost, fabric, *others) == [None, None, ("0000:02:00.0", 1), ("0000:02:00.0", 1)]


def test_the_lowest_address_is_the_lowest_domain() -> None:
    pair = [gpu(1, to_switch(None), domain=0x10000), gpu(1, to_switch(None), domain=0xFFFF)]
    assert cliques(*pair) == [("ffff:01:00.0", 1)] * 2


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), max_size=12), st.permutations(range(1, 9)))
def test_cliques_are_the_same_in_whatever_order_gpus_and_links_are_told(
    pairs: list[tuple[int, int]], order: list[int]
) -> None:
    links: dict[int, list[NvLink]] = {bus: [] for bus in range(1, 9)}
    for one, other in pairs:
        links[one].append(to_gpu(other))
        links[other].append(to_gpu(one))
    gpus = {bus: gpu(bus, *links[bus]) for bus in links}
    shuffled = nvlink_cliques(replace(gpus[bus], nvlinks=tuple(reversed(links[bus]))) for bus in order)
    assert shuffled == nvlink_cliques(gpus.values())
    for one, other in pairs:
        assert shuffled[gpus[one].uuid] == shuffled[gpus[other].uuid]
    assert {clique.peers + 1 for clique in shuffled.values() if clique is not None} <= set(range(1, 9))
    assert all(isinstance(clique, Clique) for clique in shuffled.values())
