"""PCI facts from trees as the kernel makes them."""

from pathlib import Path

import pytest

from dra_driver.inventory.sysfs import bound_gpus, numa_node, pcie_root, present

GPU = "0000:65:00.0"


def tree(sysfs: Path, address: str, target: str | None, **files: str) -> Path:
    """A device under bus/pci/devices, as the link that the kernel makes, or as a directory."""
    devices = sysfs / "bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    if target is None:
        (devices / address).mkdir()
    else:
        (devices / target).resolve().mkdir(parents=True)
        (devices / address).symlink_to(target)
    for name, content in files.items():
        (devices / address / name).write_text(content)
    return sysfs


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (f"../../../devices/pci0000:64/0000:64:00.0/{GPU}", "pci0000:64"),
        (f"../../../devices/pci0000:64/0000:64:00.0/0000:65:00.0/0000:66:08.0/{GPU}", "pci0000:64"),
        (f"../../../devices/pci10000:00/{GPU}", "pci10000:00"),
        (f"../../../devices/LNXSYSTM:00/pci0008:00/{GPU}", "pci0008:00"),
        (f"../../../devices/platform/tegra/{GPU}", None),
        (f"../../../devices/pci0000:zz/{GPU}", None),
        (None, None),
    ],
)
def test_the_root_complex_is_the_first_pci_part_of_the_device_path(
    tmp_path: Path, target: str | None, expected: str | None
) -> None:
    assert pcie_root(tree(tmp_path, GPU, target), GPU) == expected


@pytest.mark.parametrize(
    ("content", "expected"), [("0\n", 0), ("1\n", 1), ("-1\n", None), ("\n", None), ("none\n", None)]
)
def test_a_numa_node_that_the_firmware_does_not_tell_is_none(
    tmp_path: Path, content: str, expected: int | None
) -> None:
    assert numa_node(tree(tmp_path, GPU, None, numa_node=content), GPU) == expected


def test_a_device_that_sysfs_does_not_show_has_no_facts(tmp_path: Path) -> None:
    assert (pcie_root(tmp_path, GPU), numa_node(tmp_path, GPU), present(tmp_path, GPU)) == (None, None, False)


def test_bound_gpus_are_the_display_functions_of_the_driver(tmp_path: Path) -> None:
    driver = tmp_path / "bus/pci/drivers/nvidia"
    driver.mkdir(parents=True)
    for address, kind in [(GPU, "0x030200"), ("10000:01:00.0", "0x030000"), ("0000:66:00.0", "0x068000")]:
        tree(tmp_path, address, None, **{"class": f"{kind}\n"})
        (driver / address).symlink_to(f"../../devices/{address}")
    for name in ("bind", "module", "new_id"):
        (driver / name).touch()
    assert bound_gpus(tmp_path) == {GPU, "10000:01:00.0"}


def test_without_the_driver_no_gpu_is_bound(tmp_path: Path) -> None:
    assert bound_gpus(tmp_path) == frozenset()
