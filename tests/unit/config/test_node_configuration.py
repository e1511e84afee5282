"""The node configuration file: which settings a GPU has, and what is said of mistakes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dra_driver.config.node import GpuSettings, MigMode, NodeConfig, load
from dra_driver.errors import UsageError
from dra_driver.inventory.model import Gpu
from dra_driver.inventory.profile import load_profile

HEAD = "apiVersion: config.dra-driver.io/v1alpha1\nkind: NodeConfig\n"
GPU = load_profile("dgx-h100").gpus_on("n1")[0]


def config(tmp_path: Path, body: str, mig: MigMode = MigMode.AUTO) -> NodeConfig:
    path = tmp_path / "node.yaml"
    path.write_text(HEAD + body, encoding="utf-8")
    return load(path, mig)


def refusal(tmp_path: Path, body: str) -> str:
    with pytest.raises(UsageError) as caught:
        config(tmp_path, body)
    return str(caught.value).removeprefix(f"{tmp_path / 'node.yaml'} is no valid NodeConfig: ")


def test_without_a_file_gpus_are_offered_as_they_are_found_and_to_one_claim() -> None:
    assert GpuSettings(MigMode.AUTO, "none", destroy_unowned=False) == NodeConfig().of(GPU)


def test_a_file_without_entries_leaves_the_mode_to_the_flag(tmp_path: Path) -> None:
    assert MigMode.DYNAMIC is config(tmp_path, "", MigMode.DYNAMIC).of(GPU).mig


@pytest.mark.parametrize(
    "match",
    [
        f"uuid: {GPU.uuid}",
        f"uuid: GPU-{GPU.uuid[4:].upper()}",
        f"pciAddress: {GPU.pci_address}",
        f'pciAddress: "0000{GPU.pci_address.upper()}"',
        f"model: {GPU.name}",
        "model: '*h100*'",
        "model: nvidia H100 80GB HBM3",
        f"model: NVIDIA*\n  uuid: {GPU.uuid}",
    ],
)
def test_gpus_are_named_by_uuid_pci_address_and_model(tmp_path: Path, match: str) -> None:
    assert MigMode.OFF is config(tmp_path, f"gpus:\n- mig: off\n  {match}\n").of(GPU).mig


@pytest.mark.parametrize(
    "match",
    [
        "uuid: GPU-1",
        "pciAddress: 0000:ff:00.0",
        "model: H100",
        "model: NVIDIA ?100*",
        f"model: '{'*' * 95}x'",  # as a plain regular expression it would be tried for years
        f"uuid: {GPU.uuid}\n  model: L4",
    ],
)
def test_an_entry_for_other_gpus_does_nothing(tmp_path: Path, match: str) -> None:
    assert GpuSettings() == config(tmp_path, f"gpus:\n- mig: dynamic\n  {match}\n").of(GPU)


def test_each_setting_comes_from_the_first_entry_that_has_it(tmp_path: Path) -> None:
    body = f"gpus:\n- uuid: {GPU.uuid}\n  mig: static\n- mig: dynamic\n  shares: 4\n- shares: memory\n"
    found = config(tmp_path, body)

    assert GpuSettings(MigMode.STATIC, 4) == found.of(GPU)
    assert GpuSettings(MigMode.DYNAMIC, 4) == found.of(replace(GPU, uuid="GPU-other"))


@pytest.mark.parametrize(
    ("text", "shares"),
    [("none", "none"), ("unlimited", "unlimited"), ("'memory'", "memory"), ("1", 1), ("1024", 1024)],
)
def test_shares_are_a_word_or_a_number(tmp_path: Path, text: str, shares: object) -> None:
    assert shares == config(tmp_path, f"gpus:\n- shares: {text}\n").of(GPU).shares


def test_the_most_special_entry_decides_whether_unowned_instances_go(tmp_path: Path) -> None:
    body = f"gpus:\n- uuid: {GPU.uuid}\n  destroyUnownedInstances: false\n- destroyUnownedInstances: true\n"
    found = config(tmp_path, body, MigMode.DYNAMIC)

    assert not found.of(GPU).destroy_unowned
    assert found.of(replace(GPU, uuid="GPU-other")).destroy_unowned


def test_unowned_instances_go_only_where_gpus_are_cut_on_demand(tmp_path: Path) -> None:
    body = "gpus:\n- destroyUnownedInstances: true\n"
    modes = {mode for mode in MigMode if config(tmp_path, body, mode).of(GPU).destroy_unowned}

    assert {MigMode.DYNAMIC} == modes


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("gpus:\n- mig: on\n", "line 4: gpus[0].mig: expected auto, static, dynamic or off, found 'on'"),
        (
            "gpus:\n- shares: 0\n",
            "line 4: gpus[0].shares: expected none, unlimited, memory, or a whole number from 1 to 1024, found 0",
        ),
        (
            "gpus:\n- shares: '4'\n",
            "line 4: gpus[0].shares: expected none, unlimited, memory, or a whole number from 1 to 1024, found '4'",
        ),
        (
            "gpus:\n- pciAddress: 65:00.0\n",
            "line 4: gpus[0].pciAddress: expected a PCI address such as 0000:65:00.0, found '65:00.0'",
        ),
        (
            "gpus:\n- uuid: MIG-1\n",
            "line 4: gpus[0].uuid: expected the UUID of a GPU, such as GPU-3f583ca0-..., found 'MIG-1'",
        ),
        ("gpus:\n- model: 4\n", "line 4: gpus[0].model: expected a text of 1 to 96 characters, found 4"),
        ("gpus:\n- index: 0\n", "line 4: gpus[0].index: unknown key"),
        ("gpus: all\n", "line 3: gpus: expected a list, found 'all'"),
        ("gpus:\n- L4\n", "line 4: gpus[0]: expected a mapping, found 'L4'"),
        (
            "gpus:\n- destroyUnownedInstances: 1\n",
            "line 4: gpus[0].destroyUnownedInstances: expected true or false, found 1",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_was_expected(
    tmp_path: Path, body: str, message: str
) -> None:
    assert message == refusal(tmp_path, body)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    expected = [
        "line 4: gpus[0].mig: expected auto, static, dynamic or off, found 'yes'",
        "line 5: gpus[0].share: unknown key",
        "line 6: nodes: unknown key",
    ]

    assert expected == refusal(tmp_path, "gpus:\n- mig: yes\n  share: 4\nnodes: [a]\n").split("; ")


def test_a_key_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    assert "line 5, gpus[0].mig: the key is there twice" in refusal(
        tmp_path, "gpus:\n- mig: off\n  mig: auto\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: NodeConfig\n", "line 1: apiVersion: it is required"),
        (HEAD.replace("v1alpha1", "v2"), "expected config.dra-driver.io/v1alpha1, found"),
        ("", "an empty file"),
        ("a: [", "expected"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message.replace("[", r"\[")):
        load(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"node.yaml cannot be read: there is no such file"):
        load(tmp_path / "node.yaml")


def test_without_a_file_pydantic_is_not_loaded() -> None:
    script = "import sys, dra_driver.config.node; sys.exit('pydantic' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", script], check=False).returncode


def test_gpus_of_any_model_may_be_named(tmp_path: Path) -> None:
    card: Gpu = replace(GPU, name="NVIDIA RTX PRO 6000 [Server]")

    assert 2 == config(tmp_path, "gpus:\n- model: '*[server]'\n  shares: 2\n").of(card).shares
