"""What a user is told about a profile of their own: the file, the line or key, and what was expected."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from dra_driver.errors import UsageError
from dra_driver.inventory.model import NvLink, RemoteType
from dra_driver.inventory.profile import Profile, load_profile

GOOD = """\
description: A node
driver: {version: 580.95.05, cuda: 13.0}
defaults:
  name: NVIDIA Test
  mig: {table: a100-40}
gpus:
  - {pci: 0000:17:00.0, root: pci0000:16, numa: 0}
  - {pci: 0000:31:00.0}
nvlink:
  - {via: bridge, gpus: all, links: 12}
unverified:
  gpus[0].root: a guess
"""

Load = Callable[[str], Profile]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write_and_load(text: str) -> Profile:
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return load_profile(path)

    return write_and_load


def error_of(load: Load, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(text)
    return str(caught.value)


def test_a_profile_of_the_user_is_loaded_by_its_path(load: Load) -> None:
    profile = load(GOOD)
    assert profile.name == "mine"
    assert [gpu.pci_address for gpu in profile.gpus] == ["0000:17:00.0", "0000:31:00.0"]
    assert profile.unverified["gpus[0].root"] == "a guess"


def test_a_path_given_as_text_is_told_from_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert load_profile(str(tmp_path / "mine.yaml")) == load_profile(tmp_path / "mine.yaml")


# replaced text, replacement, line in the message, what the message says
BAD = {
    "unknown key": ("driver:", "drivers:", 2, "unknown key 'drivers', expected one of description, driver"),
    "unknown GPU key": ("root:", "rot:", 7, "gpus[0].rot: unknown key 'rot'"),
    "unknown default": ("  name:", "  nam:", 4, "defaults.nam: unknown key 'nam'"),
    "UUID for all GPUs": ("  name: NVIDIA Test", "  name: x\n  uuid: GPU-1", 5, "unknown key 'uuid'"),
    "missing key": ("description: A node\n", "", 1, "the key 'description' is missing"),
    "missing name": ("  name: NVIDIA Test\n", "", 6, "the key 'name' is missing, here and in defaults"),
    "missing PCI address": ("{pci: 0000:31:00.0}", "{numa: 1}", 8, "gpus[1]: the key 'pci' is missing"),
    "duplicate key": ("  name:", "  name: a\n  name:", 5, "defaults.name: the key is there twice"),
    "list for a mapping": ("defaults:\n  name: NVIDIA Test\n  mig: {table: a100-40}", "defaults:\n  - name", 4, "expected a mapping, found a list"),
    "text for a list": ("gpus: all", "gpus: some", 10, "nvlink[0].gpus: expected a list, found 'some'"),
    "nothing for a text": ("580.95.05", "", 2, "driver.version: expected a version such as 580.95.05, found nothing"),
    "mapping for a text": ("A node", "{a: b}", 1, "expected one line of at most 200 characters, found a mapping"),
    "tab in a name": ("NVIDIA Test", '"a\\tb"', 4, "expected a text of 1 to 96 characters"),
    "driver version": ("580.95.05", "580/95", 2, "driver.version: expected a version such as 580.95.05"),
    "driver version as a path": ("580.95.05", "../x", 2, "driver.version: expected a version"),
    "CUDA version": ("13.0", "13", 2, "driver.cuda: expected a CUDA version such as 13.0, found '13'"),
    "processor": ("cuda: 13.0", "cuda: 13.0, machine: arm64", 2, "driver.machine: expected one of x86_64, aarch64"),
    "PCI address": ("{pci: 0000:31:00.0}", "{pci: 31:00.0}", 8, "expected a PCI address such as 0000:65:00.0, found '31"),
    "PCI address twice": ("0000:31:00.0", "0000:17:00.0", 8, "found 0000:17:00.0 again, which gpus[0] has"),
    "PCI address twice in two notations": ("0000:31:00.0", "00000000:17:00.0", 8, "a PCI address of its own"),
    "root": ("pci0000:16", "0000:16", 7, "gpus[0].root: expected a PCIe root such as pci0000:64, found '0000:16'"),
    "NUMA as sysfs writes unknown": ("numa: 0", "numa: -1", 7, "a NUMA node from 0 to 1023, or no key where it is unk"),
    "NUMA in words": ("numa: 0", "numa: zero", 7, "gpus[0].numa: expected a whole number from 0 to 1023, found 'zero'"),
    "NUMA as a text": ("numa: 0", 'numa: "0"', 7, "expected a whole number from 0 to 1023"),
    "NUMA too high": ("numa: 0", "numa: 4096", 7, "found '4096'"),
    "NUMA of a thousand digits": ("numa: 0", f"numa: {'9' * 5000}", 7, "expected a whole number from 0 to 1023"),
    "memory": ("  name:", "  memoryMiB: 40Gi\n  name:", 4, "expected a whole number of MiB from 1 to 16777216"),
    "no memory": ("  name:", "  memoryMiB: 0\n  name:", 4, "expected a whole number of MiB from 1"),
    "brand": ("  name:", "  brand: NVIDIA\n  name:", 4, "defaults.brand: expected one of Unknown, Quadro, Tesla"),
    "architecture": ("  name:", "  architecture: Ampre\n  name:", 4, "Ampere, Ada Lovelace, Hopper"),
    "compute capability": ("  name:", "  computeCapability: 8\n  name:", 4, "a compute capability such as 9.0, found '8'"),
    "addressing mode": ("  name:", "  addressingMode: hmm\n  name:", 4, "expected one of None, HMM, ATS, found 'hmm'"),
    "PCI device id": ("  name:", "  pciDeviceId: 0x20B0\n  name:", 4, "four hex digits such as 20b0"),
    "UUID": ("numa: 0", "uuid: MIG-1", 7, "gpus[0].uuid: expected GPU- and a UUID in lower case, found 'MIG-1'"),
    "minor number": ("numa: 0", "minor: 64", 7, "gpus[0].minor: expected a whole number from 0 to 63"),
    "fabric of zeros": (
        "numa: 0", "fabric: {clusterUUID: 00000000-0000-0000-0000-000000000000, cliqueID: 1}", 7, "all-zero UUID",
    ),
    "fabric without clique": ("numa: 0", "fabric: {clusterUUID: x}", 7, "gpus[0].fabric: the key 'cliqueID' is missing"),
    "MIG table": ("table: a100-40", "table: a100", 5, "defaults.mig.table: expected one of a100-40, a100-80, b200"),
    "MIG table of another folder": ("table: a100-40", "table: ../a100-40", 5, "expected one of a100-40"),
    "MIG table file": ("table: a100-40", "table: none.yaml", 5, "there is no MIG table"),
    "MIG switch": ("a100-40}", "a100-40, enabled: yes}", 5, "defaults.mig.enabled: expected true or false, found 'yes'"),
    "MIG devices while off": (
        "a100-40}", "a100-40, devices: [{profile: 1g.5gb, start: 0}]}", 5, "expected no devices where enabled is not",
    ),
    "link to a GPU that is not there": ("gpus: all", "gpus: [0000:99:00.0]", 10, "a GPU of this profile, found 0000:99"),
    "link to itself": ("gpus: all", "gpus: [0000:17:00.0, 0000:17:00.0]", 10, "0000:17:00.0 is in the group twice"),
    "link without a peer": ("gpus: all", "gpus: [0000:17:00.0]", 10, "nvlink[0].links: expected the 12 links"),
    "kind of link": ("via: bridge", "via: cable", 10, "nvlink[0].via: expected one of switch, bridge, unreadable"),
    "no kind of link": ("via: bridge, ", "", 10, "nvlink[0]: expected one of switch, bridge, unreadable, found a map"),
    "number of links": ("links: 12", "links: 37", 10, "a number of links from 1 to 36, found '37'"),
    "links of two groups": (
        "links: 12}", "links: 30}\n  - {via: switch, gpus: all, links: 7}", 11, "at most 36 links a GPU, found 37",
    ),
    "switch for a bridge": ("links: 12", "links: 12, switches: []", 10, "unknown key 'switches'"),
    "switch that is a GPU": (
        "bridge, gpus: all", "switch, gpus: all, switches: [0000:31:00.0]", 10, "of its own for the switch",
    ),
    "unverified path": ("gpus[0].root:", "gpus[5].root:", 12, "expected the path of a key of this file"),
    "unverified without a reason": ("a guess", "", 12, "expected why the value is not confirmed, found nothing"),
    "alias": ("  - {pci: 0000:31:00.0}", "  - &a {pci: 0000:31:00.0}\n  - *a", 9, "aliases are not supported"),
    "alias of itself": ("gpus:\n", "gpus: &a\n  - *a\n", 7, "aliases are not supported"),
    "tag": ("A node", "!!python/name:os.system x", 1, "the tag 'tag:yaml.org,2002:python/name:os.system' is not"),
    "list as key": ("description: A node", "? [a]\n: b", 1, "expected a text of at most 96 characters as key, found a list"),
    "line break in a key": ("description:", '"a\\nb":', 1, "a text of at most 96 characters as key, found 'a\\nb'"),
    "long key": ("description:", f"{'k' * 97}:", 1, "a text of at most 96 characters as key"),
    "second document": ("unverified:", "---\nunverified:", 12, "expected one document, found a second one"),
    "nesting": ("A node", "[" * 40 + "]" * 40, 1, "expected at most 16 levels of nesting"),
    "YAML syntax": ("A node", "A node: no", 1, "column 20: expected YAML: mapping values are not allowed"),
    "unclosed bracket": ("cuda: 13.0}", "cuda: 13.0", 3, "expected YAML: "),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_profile_names_the_file_the_line_and_what_was_expected(
    load: Load, tmp_path: Path, case: str
) -> None:
    old, new, line, expected = BAD[case]
    assert old in GOOD
    message = error_of(load, GOOD.replace(old, new, 1))
    assert message.startswith(f"{tmp_path}/mine.yaml, line {line}")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "null\n"])
def test_an_empty_profile_is_said_to_be_empty(load: Load, text: str) -> None:
    assert "expected a YAML mapping, found an empty file" in error_of(load, text)


@pytest.mark.parametrize("text", ["just words\n", "- a\n- b\n"])
def test_a_profile_is_a_mapping(load: Load, text: str) -> None:
    assert "line 1: expected a mapping" in error_of(load, text)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"description: \xff\n", "line 1: expected YAML in UTF-8, found the byte 0xff"),
        (b"description: d\n\nname: a\x00b\n", "line 3: expected YAML, found the character '\\x00'"),
        (b"#" * (1 << 20) + b"##", "expected at most 1048576 bytes of YAML, found more"),
    ],
    ids=["latin1", "nul", "huge"],
)
def test_a_file_that_is_no_yaml_text_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no profile /.*/none\.yaml: expected the path of a YAML file"
    ):
        load_profile(tmp_path / "none.yaml")


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_profile(tmp_path)


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(
        UsageError, match=r"there is no profile 'dgx-h1000': expected one of .*dgx-h100, .*or the path"
    ):
        load_profile("dgx-h1000")


def test_two_gpus_cannot_have_one_uuid_or_minor(load: Load) -> None:
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    same = f"uuid: {uuid}, minor: 3"
    text = GOOD.replace("numa: 0", same).replace("0000:31:00.0}", f"0000:31:00.0, {same}}}")
    assert f"line 8, gpus[1].uuid: expected a UUID of its own, found {uuid} again" in error_of(load, text)
    text = text.replace(f"uuid: {uuid}, ", "")
    assert "line 8, gpus[1].minor: expected a minor number of its own, found 3 again" in error_of(load, text)


def test_more_gpus_than_the_kernel_numbers_are_refused(load: Load) -> None:
    gpus = "".join(f"  - {{pci: {i:04x}:01:00.0}}\n" for i in range(65))
    text = f"description: d\ndriver: {{version: 580.95.05, cuda: 13.0}}\ndefaults: {{name: n}}\ngpus:\n{gpus}"
    assert "line 69, gpus[64]: expected at most 64 GPUs, found 65" in error_of(load, text)


# existing MIG devices of an A100 of 40 GB, and why they cannot be
MIG = {
    "unknown profile": (
        "{profile: 9g.9gb, start: 0}",
        "mig.devices[0].profile: expected one of 1g.5gb, 1g.5gb+me",
    ),
    "outside the board": ("{profile: 1g.5gb, start: 8}", "a memory slice from 0 to 7, found '8'"),
    "start of another profile": (
        "{profile: 3g.20gb, start: 2}",
        "expected 3g.20gb to start at one of 0, 4, found 2",
    ),
    "overlap": (
        "{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 3}",
        "1g.5gb at 3 overlaps with 3g.20gb at 0",
    ),
    "second of one": (
        "{profile: 1g.5gb+me, start: 0}, {profile: 1g.5gb+me, start: 1}",
        "at most 1 of 1g.5gb+me",
    ),
}


@pytest.mark.parametrize("case", MIG)
def test_mig_devices_that_the_board_cannot_have_are_refused(load: Load, case: str) -> None:
    devices, expected = MIG[case]
    text = GOOD.replace("a100-40}", f"a100-40, enabled: true, devices: [{devices}]}}")
    message = error_of(load, text)
    assert "mine.yaml, line 5, defaults.mig.devices[" in message
    assert expected in message


def test_media_engines_are_not_given_out_twice(load: Load) -> None:
    devices = "[{profile: 1g.24gb+me.all, start: 0}, {profile: 1g.24gb, start: 3}]"
    text = GOOD.replace("a100-40}", f"rtx-pro-6000, enabled: true, devices: {devices}}}")
    assert "expected at most 4 decoders on the board, found 5" in error_of(load, text)


def test_a_mig_table_of_the_user_is_read_beside_the_profile(load: Load, tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(
        dedent("""\
            slices: 2
            profiles:
              - {id: 1, name: 1g.1gb, memoryMiB: 1, computeSlices: 1, multiprocessors: 1, maxInstances: 2, size: 1,
                 placements: [0, 1]}
        """)
    )
    mig = load(GOOD.replace("a100-40", "table.yaml")).gpus[0].mig
    assert mig is not None
    assert [profile.name for profile in mig.profiles] == ["1g.1gb"]


TABLE = """\
slices: 8
profiles:
  - {id: 1, name: 1g.5gb, memoryMiB: 1, computeSlices: 1, multiprocessors: 1, maxInstances: 7, size: 2,
     placements: [0, 2]}
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "[0, 2]",
            "[0, 8]",
            "line 4, profiles[0].placements[1]: expected a memory slice from 0 to 6",
        ),
        ("[0, 2]", "[0, 1]", "expected rising multiples of the size 2"),
        ("[0, 2]", "[2, 0]", "expected rising multiples of the size 2"),
        ("[0, 2]", "[]", "expected rising multiples of the size 2"),
        (
            "size: 2",
            "size: 3",
            "line 3, profiles[0].size: expected a divisor of the board's 8 slices, found 3",
        ),
        (
            "1g.5gb",
            "1g5gb",
            "line 3, profiles[0].name: expected a name such as 1g.5gb or 1g.5gb+me, found '1g5gb'",
        ),
        ("maxInstances: 7, ", "", "line 3, profiles[0]: the key 'maxInstances' is missing"),
        ("slices: 8", "slices: 0", "line 1, slices: expected a whole number from 1 to 64"),
        ("id: 1", "encoder: 1, id: 1", "unknown key 'encoder'"),
    ],
)
def test_a_bad_mig_table_is_told_by_its_own_file(
    load: Load, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    (tmp_path / "table.yaml").write_text(TABLE.replace(old, new, 1))
    message = error_of(load, GOOD.replace("a100-40", "table.yaml"))
    assert message.startswith(f"{tmp_path}/table.yaml, line ")
    assert expected in message


def test_a_key_of_a_gpu_wins_over_the_default_and_null_unsets_it(load: Load) -> None:
    first, second = load(GOOD.replace("numa: 0}", "numa: 0, name: Other, mig: null}")).gpus
    assert (first.name, first.mig) == ("Other", None)
    assert second.name == "NVIDIA Test"
    assert second.mig is not None


def test_addresses_are_read_as_written_not_as_yaml_numbers(load: Load) -> None:
    assert load(GOOD.replace("0000:31:00.0", "00010000:31:00.0")).gpus[1].pci_address == "10000:31:00.0"


def test_gpus_are_in_the_order_of_their_addresses_as_numbers(load: Load) -> None:
    gpus = load(GOOD.replace("0000:17:00.0", "10000:01:00.0")).gpus
    assert [(gpu.index, gpu.minor, gpu.pci_address) for gpu in gpus] == [
        (0, 0, "0000:31:00.0"),
        (1, 1, "10000:01:00.0"),
    ]


def test_minor_numbers_may_be_given_or_untold(load: Load) -> None:
    assert [gpu.minor for gpu in load(GOOD.replace("numa: 0", "minor: 1")).gpus] == [1, 0]
    assert [gpu.minor for gpu in load(GOOD.replace("numa: 0", "minor: null")).gpus] == [None, 0]


def test_a_node_may_have_no_gpu(load: Load) -> None:
    assert load("description: d\ndriver: {version: 580.95.05, cuda: 13.0}\ngpus: []\n").gpus == ()


def test_a_uuid_and_serial_of_the_profile_are_kept_on_every_node(load: Load) -> None:
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    profile = load(GOOD.replace("numa: 0", f"uuid: {uuid}, serial: '0012'"))
    assert {(profile.gpus_on(node)[0].uuid, profile.gpus_on(node)[0].serial) for node in "ab"} == {
        (uuid, "0012")
    }


def test_three_bridged_gpus_share_their_links_evenly(load: Load) -> None:
    text = GOOD.replace("0000:31:00.0}\n", "0000:31:00.0}\n  - {pci: 0000:45:00.0}\n").replace(
        "links: 12", "links: 4"
    )
    ends = [(link.remote, link.remote_pci_address) for link in load(text).gpus[0].nvlinks or ()]
    peers = [(RemoteType.GPU, "0000:31:00.0"), (RemoteType.GPU, "0000:45:00.0")]
    assert sorted(ends) == sorted(peers * 2)


def test_links_may_not_tell_their_switch(load: Load) -> None:
    gpu = load(GOOD.replace("bridge", "switch").replace("links: 12", "links: 1")).gpus[0]
    assert gpu.nvlinks == (NvLink(0, RemoteType.SWITCH, None),)


def test_link_state_may_be_unreadable(load: Load) -> None:
    gpus = load(
        GOOD.replace("via: bridge, gpus: all, links: 12", "via: unreadable, gpus: [0000:31:00.0]")
    ).gpus
    assert [gpu.nvlinks for gpu in gpus] == [(), None]
