"""The profiles in the package, against values typed here from NVML dumps and the MIG User Guide."""

from importlib import resources
from typing import Any

import pytest
import yaml

from dra_driver.inventory.model import Fabric, Gpu, MigProfile, RemoteType
from dra_driver.inventory.profile import load_profile, profile_names
from dra_driver.inventory.topology import nvlink_cliques

MIB = 1 << 20

# name, GPUs, memory in MiB, compute capability, architecture, multiprocessors, brand
MODELS: dict[str, tuple[str, int, int | None, tuple[int, int], str, int, str]] = {
    "a100-pcie-bridges": ("NVIDIA A100 80GB PCIe", 4, 81920, (8, 0), "Ampere", 108, "Nvidia"),
    "dgx-a100-40": ("NVIDIA A100-SXM4-40GB", 8, 40960, (8, 0), "Ampere", 108, "Nvidia"),
    "dgx-a100-80": ("NVIDIA A100-SXM4-80GB", 8, 81920, (8, 0), "Ampere", 108, "Nvidia"),
    "dgx-b200": ("NVIDIA B200", 8, 183359, (10, 0), "Blackwell", 148, "Nvidia"),
    "dgx-h100": ("NVIDIA H100 80GB HBM3", 8, 81559, (9, 0), "Hopper", 132, "Nvidia"),
    "gb10": ("NVIDIA GB10", 1, None, (12, 1), "Blackwell", 48, "Nvidia"),
    "gb200-nvl72": ("NVIDIA GB200", 4, 189471, (10, 0), "Blackwell", 152, "Nvidia"),
    "hgx-h200": ("NVIDIA H200", 8, 143771, (9, 0), "Hopper", 132, "Nvidia"),
    "l4": ("NVIDIA L4", 8, 23034, (8, 9), "Ada Lovelace", 58, "Nvidia"),
    "l40s": ("NVIDIA L40S", 4, 46068, (8, 9), "Ada Lovelace", 142, "Nvidia"),
    "rtx-pro-6000": (
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", 8, 97887, (12, 0), "Blackwell", 188, "NvidiaRTX",
    ),
    "t4": ("Tesla T4", 4, 15360, (7, 5), "Turing", 40, "Tesla"),
}  # fmt: skip

# NVLinks of each GPU, GPUs in its island (itself included), MIG profiles (0: not capable)
TOPOLOGY = {
    "a100-pcie-bridges": (12, 2, 7),
    "dgx-a100-40": (12, 8, 7),
    "dgx-a100-80": (12, 8, 7),
    "dgx-b200": (18, 8, 7),
    "dgx-h100": (18, 8, 7),
    "gb10": (0, 1, 0),
    "gb200-nvl72": (18, 4, 7),
    "hgx-h200": (18, 8, 7),
    "l4": (0, 1, 0),
    "l40s": (0, 1, 0),
    "rtx-pro-6000": (0, 1, 11),
    "t4": (0, 1, 0),
}

ADDRESSES = {
    "dgx-a100-40": "07 0f 47 4e 87 90 b7 bd",
    "dgx-a100-80": "07 0f 47 4e 87 90 b7 bd",
    "dgx-h100": "1b 43 52 61 9d c3 d1 df",
    "hgx-h200": "19 3b 4c 5d 9b bb cb db",
    "l4": "9f a1 a3 a5 ae b0 b2 b4",
}

every_profile = pytest.mark.parametrize("name", profile_names())


def gpus_of(name: str) -> tuple[Gpu, ...]:
    return load_profile(name).gpus_on("node-1")


def test_the_package_has_the_profiles_that_the_docs_name() -> None:
    assert profile_names() == tuple(sorted(MODELS))


@every_profile
def test_a_profile_has_the_values_of_its_model(name: str) -> None:
    model, count, memory, capability, architecture, multiprocessors, brand = MODELS[name]
    gpus = gpus_of(name)
    assert len(gpus) == count
    for gpu in gpus:
        assert (gpu.name, gpu.compute_capability, gpu.architecture) == (model, capability, architecture)
        assert gpu.memory_bytes == (None if memory is None else memory * MIB)
        assert (gpu.multiprocessors, gpu.brand) == (multiprocessors, brand)


@every_profile
def test_a_profile_has_the_links_islands_and_mig_profiles_of_its_machine(name: str) -> None:
    links, island, mig_profiles = TOPOLOGY[name]
    gpus = gpus_of(name)
    cliques = nvlink_cliques(gpus)
    for gpu in gpus:
        clique = cliques[gpu.uuid]
        assert clique is not None
        assert clique.peers == island - 1
        assert len(gpu.nvlinks or ()) == links
        assert len(gpu.mig.profiles if gpu.mig else ()) == mig_profiles


@pytest.mark.parametrize("name", ADDRESSES)
def test_pci_addresses_are_those_of_the_machine(name: str) -> None:
    expected = [f"0000:{bus}:00.0" for bus in ADDRESSES[name].split()]
    assert [gpu.pci_address for gpu in gpus_of(name)] == expected


def test_a_dgx_a100_has_a_numa_node_and_a_root_for_every_two_gpus() -> None:
    gpus = gpus_of("dgx-a100-40")
    assert [gpu.numa_node for gpu in gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert gpus[0].pcie_root == gpus[1].pcie_root == "pci0000:00"
    assert len({gpu.pcie_root for gpu in gpus}) == 4


def test_each_a100_has_two_links_to_each_of_six_switches() -> None:
    links = gpus_of("dgx-a100-40")[3].nvlinks or ()
    ends = [link.remote_pci_address for link in links]
    assert {link.remote for link in links} == {RemoteType.SWITCH}
    assert {end: ends.count(end) for end in ends} == {f"0000:c{i}:00.0": 2 for i in range(4, 10)}


def test_each_h100_has_four_or_five_links_to_each_of_four_switches() -> None:
    ends = [link.remote_pci_address for link in gpus_of("dgx-h100")[0].nvlinks or ()]
    assert sorted(ends.count(end) for end in set(ends)) == [4, 4, 5, 5]


def test_gpus_of_a_gb200_tray_have_pci_domains_of_their_own() -> None:
    gpus = gpus_of("gb200-nvl72")
    expected = ["0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"]
    assert [gpu.pci_address for gpu in gpus] == expected
    assert [gpu.numa_node for gpu in gpus] == [0, 0, 1, 1]
    assert {gpu.addressing_mode for gpu in gpus} == {"ATS"}


def test_all_trays_of_a_gb200_rack_share_one_fabric_and_clique() -> None:
    profile = load_profile("gb200-nvl72")
    fabrics = {gpu.fabric for node in ("tray-1", "tray-2") for gpu in profile.gpus_on(node)}
    assert len(fabrics) == 1
    assert isinstance(fabrics.pop(), Fabric)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "gb200-nvl72"])
def test_only_the_rack_has_a_multi_node_fabric(name: str) -> None:
    assert {gpu.fabric for gpu in gpus_of(name)} == {None}


def test_a_gb10_has_unified_memory_and_no_serial() -> None:
    (gpu,) = gpus_of("gb10")
    assert (gpu.pci_address, gpu.memory_bytes, gpu.mig, gpu.serial) == ("000f:01:00.0", None, None, None)


def test_drivers_are_of_the_versions_that_know_the_gpus() -> None:
    versions = {
        name: (profile.driver_version, profile.cuda_driver_version)
        for name in profile_names()
        for profile in [load_profile(name)]
    }
    assert versions["t4"] == ("550.163.01", 12040)
    assert versions["hgx-h200"] == ("570.133.20", 12080)
    assert versions["gb200-nvl72"] == ("580.95.05", 13000)
    assert min(versions[name][0] for name in ("dgx-b200", "rtx-pro-6000", "gb10")) == "580.95.05"


@every_profile
def test_direct_links_are_there_in_both_directions(name: str) -> None:
    ends = [
        (gpu.pci_address, link.remote_pci_address)
        for gpu in gpus_of(name)
        for link in gpu.nvlinks or ()
        if link.remote is RemoteType.GPU
    ]
    assert sorted(ends, key=str) == sorted([(b, a) for a, b in ends], key=str)


def test_bridged_cards_link_to_their_pair_only() -> None:
    ends = {
        gpu.pci_address: {link.remote_pci_address for link in gpu.nvlinks or ()}
        for gpu in gpus_of("a100-pcie-bridges")
    }
    assert ends == {
        "0000:17:00.0": {"0000:31:00.0"},
        "0000:31:00.0": {"0000:17:00.0"},
        "0000:b1:00.0": {"0000:ca:00.0"},
        "0000:ca:00.0": {"0000:b1:00.0"},
    }


# profile id -> placements and size on the boards with seven compute and eight memory slices
SEVEN_SLICES = {
    19: ((0, 1, 2, 3, 4, 5, 6), 1),
    20: ((0, 1, 2, 3, 4, 5, 6), 1),
    15: ((0, 2, 4, 6), 2),
    14: ((0, 2, 4), 2),
    9: ((0, 4), 4),
    5: ((0,), 4),
    0: ((0,), 8),
}
QUARTERS = {
    **dict.fromkeys((14, 21, 47, 65, 67), ((0, 3, 6, 9), 3)),
    **dict.fromkeys((5, 35, 64, 66), ((0, 6), 6)),
    **dict.fromkeys((0, 32), ((0,), 12)),
}


@pytest.mark.parametrize("name", [name for name, (_, _, count) in TOPOLOGY.items() if count])
def test_mig_placements_follow_the_rule_of_the_board(name: str) -> None:
    rule = QUARTERS if name == "rtx-pro-6000" else SEVEN_SLICES
    assert {p.id: (p.placements, p.size) for p in mig_profiles(name).values()} == rule


def mig_profiles(name: str) -> dict[str, MigProfile]:
    mig = gpus_of(name)[0].mig
    assert mig is not None
    return {profile.name: profile for profile in mig.profiles}


# MiB, compute slices, multiprocessors, copy engines, decoders, encoders, JPEG, OFA, max instances
MIG = {
    ("dgx-a100-40", "1g.5gb"): (4864, 1, 14, 1, 0, 0, 0, 0, 7),
    ("dgx-a100-40", "1g.5gb+me"): (4864, 1, 14, 1, 1, 0, 1, 1, 1),
    ("dgx-a100-40", "1g.10gb"): (9856, 1, 14, 1, 1, 0, 0, 0, 4),
    ("dgx-a100-40", "2g.10gb"): (9856, 2, 28, 2, 1, 0, 0, 0, 3),
    ("dgx-a100-40", "3g.20gb"): (19968, 3, 42, 3, 2, 0, 0, 0, 2),
    ("dgx-a100-40", "4g.20gb"): (19968, 4, 56, 4, 2, 0, 0, 0, 1),
    ("dgx-a100-40", "7g.40gb"): (40192, 7, 98, 7, 5, 0, 1, 1, 1),
    ("dgx-a100-80", "1g.10gb"): (9728, 1, 14, 1, 0, 0, 0, 0, 7),
    ("dgx-a100-80", "7g.80gb"): (80896, 7, 98, 7, 5, 0, 1, 1, 1),
    ("dgx-h100", "1g.10gb+me"): (9984, 1, 16, 1, 1, 0, 1, 1, 1),
    ("dgx-h100", "1g.20gb"): (20096, 1, 26, 1, 1, 0, 1, 0, 4),
    ("dgx-h100", "3g.40gb"): (40448, 3, 60, 3, 3, 0, 3, 0, 2),
    ("dgx-h100", "7g.80gb"): (81152, 7, 132, 8, 7, 0, 7, 1, 1),
    ("hgx-h200", "1g.18gb"): (16384, 1, 16, 1, 1, 0, 1, 0, 7),
    ("hgx-h200", "4g.71gb"): (71168, 4, 64, 4, 4, 0, 4, 0, 1),
    ("hgx-h200", "7g.141gb"): (143104, 7, 132, 8, 7, 0, 7, 1, 1),
    ("dgx-b200", "1g.23gb"): (22528, 1, 18, 2, 1, 0, 1, 0, 7),
    ("dgx-b200", "2g.45gb"): (45312, 2, 36, 4, 2, 0, 2, 0, 3),
    ("gb200-nvl72", "1g.47gb"): (46592, 1, 32, 2, 1, 0, 1, 0, 4),
    ("gb200-nvl72", "2g.47gb"): (46592, 2, 38, 4, 2, 0, 2, 0, 3),
    ("rtx-pro-6000", "1g.24gb"): (24192, 1, 46, 1, 1, 1, 1, 0, 4),
    ("rtx-pro-6000", "1g.24gb+me.all"): (24192, 1, 46, 1, 4, 4, 4, 1, 1),
    ("rtx-pro-6000", "2g.48gb-me"): (48512, 2, 94, 2, 0, 0, 0, 0, 2),
    ("rtx-pro-6000", "4g.96gb"): (97280, 4, 188, 4, 4, 4, 4, 1, 1),
}


@pytest.mark.parametrize(("name", "mig"), MIG)
def test_a_mig_profile_has_the_memory_and_engines_of_its_board(name: str, mig: str) -> None:
    p = mig_profiles(name)[mig]
    assert (
        p.memory_bytes // MIB, p.compute_slices, p.multiprocessors, p.copy_engines, p.decoders, p.encoders,
        p.jpeg_engines, p.ofa_engines, p.max_instances,
    ) == MIG[name, mig]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, (_, _, count) in TOPOLOGY.items() if count])
def test_mig_profiles_are_named_after_their_share_of_the_board(name: str) -> None:
    gpu = gpus_of(name)[0]
    assert gpu.memory_bytes is not None
    gib = -(-gpu.memory_bytes // (1 << 30))
    for profile in mig_profiles(name).values():
        share = -(-profile.memory_bytes * 8 // gpu.memory_bytes) / 8
        assert profile.name.startswith(f"{profile.compute_slices}g.{int(share * gib + 0.5)}gb")


def raw_documents() -> list[Any]:
    folder = resources.files("dra_driver.inventory") / "profiles"
    files = [*folder.iterdir(), *(folder / "mig").iterdir()]
    return [
        pytest.param(yaml.load(file.read_text(), yaml.BaseLoader), id=file.name)  # as text: 8.0 stays "8.0"
        for file in files
        if file.name.endswith(".yaml")
    ]


@pytest.mark.parametrize("raw", raw_documents())
def test_unverified_values_are_named_by_paths_that_exist(raw: dict[str, Any]) -> None:
    for path, reason in raw.get("unverified", {}).items():
        assert reason
        assert resolve(raw, path)


def resolve(value: Any, path: str) -> list[Any]:
    found = [value]
    for step in path.replace("[", ".[").split("."):
        if step == "[*]":
            found = [item for value in found for item in value]
        elif step.startswith("["):
            found = [value[int(step[1:-1])] for value in found]
        else:
            found = [value[step] for value in found]
    return found


def test_a_profile_tells_what_is_not_verified_its_mig_table_included() -> None:
    unverified = load_profile("dgx-b200").unverified
    assert "gpus[*].root" in unverified
    assert unverified["b200:profiles[4].multiprocessors"] == "not confirmed"


@every_profile
def test_invented_root_complexes_are_said_to_be_unverified(name: str) -> None:
    unverified = load_profile(name).unverified
    assert any(path.endswith("].root") for path in unverified)


@every_profile
def test_nodes_of_one_profile_have_gpus_of_their_own(name: str) -> None:
    profile = load_profile(name)
    gpus = [gpu for node in ("node-1", "node-2", "node-3") for gpu in profile.gpus_on(node)]
    assert len({gpu.uuid for gpu in gpus}) == len(gpus)
    serials = [gpu.serial for gpu in gpus if gpu.serial is not None]
    assert len(set(serials)) == len(serials)


def test_a_node_has_the_same_gpus_after_a_restart() -> None:
    assert load_profile("dgx-h100").gpus_on("node-1") == load_profile("dgx-h100").gpus_on("node-1")


def test_identities_never_change_from_release_to_release() -> None:
    gpu = load_profile("t4").gpus_on("node-1")[0]
    assert (gpu.uuid, gpu.serial) == ("GPU-e69df2e0-9d27-5a83-bfa7-1176000414f2", "1209284679805")
