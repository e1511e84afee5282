"""Sonames and machines of libraries, and files that are none."""

from pathlib import Path

import pytest

from dra_driver.cdi.elf import Elf, Machine, read_elf
from dra_driver.inventory.fake_elf import shared_library


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("machine", Machine)
def test_a_library_tells_its_soname_and_machine(tmp_path: Path, machine: Machine) -> None:
    path = write(tmp_path / "libcuda.so.580.95.05", shared_library("libcuda.so.1", machine.name.lower()))

    assert Elf(machine, "libcuda.so.1") == read_elf(path)


def test_libraries_that_this_process_uses_are_read_as_the_loader_does() -> None:
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split()[-1] for line in lines if ".so" in line}
    sonames = {read_elf(path).soname for path in paths if "/libc.so" in path or "/libc-" in path}

    assert sonames <= {"libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"}


def test_a_library_without_soname_has_none(tmp_path: Path) -> None:
    data = bytearray(shared_library("libx.so.1", "x86_64"))
    data[64 + 2 * 56 : 64 + 2 * 56 + 8] = (1).to_bytes(8, "little")  # DT_NEEDED in place of DT_SONAME

    assert Elf(Machine.X86_64, None) == read_elf(write(tmp_path / "x", bytes(data)))


GOOD = shared_library("libx.so.1", "x86_64")


def changed(offset: int, value: bytes) -> bytes:
    return GOOD[:offset] + value + GOOD[offset + len(value) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "it is no ELF file", id="empty"),
        pytest.param(b"#!/bin/sh\n", "it is no ELF file", id="text"),
        pytest.param(changed(4, b"\1"), "it is no 64-bit little-endian library", id="32 bits"),
        pytest.param(changed(5, b"\2"), "it is no 64-bit little-endian library", id="big-endian"),
        pytest.param(changed(16, b"\2"), "it is no library for x86_64 or aarch64", id="a program"),
        pytest.param(changed(18, b"\x15"), "it is no library for x86_64 or aarch64", id="ppc64le"),
        pytest.param(GOOD[:20], "it is cut off", id="half a header"),
        pytest.param(GOOD[:100], "it is cut off", id="half the program headers"),
        pytest.param(GOOD[:200], "it is cut off", id="half the dynamic section"),
        pytest.param(GOOD[:-1], "its soname has no end", id="soname without end"),
        pytest.param(changed(32, b"\xff" * 8), "its tables are too large", id="headers far away"),
        pytest.param(changed(64 + 16, b"\xff" * 7), "its table of strings is nowhere", id="strings nowhere"),
    ],
)
def test_a_file_that_is_no_library_is_told_with_the_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        read_elf(write(tmp_path / "x", data))


def test_a_library_that_is_cut_off_anywhere_is_no_crash(tmp_path: Path) -> None:
    for length in range(len(GOOD)):
        with pytest.raises(ValueError, match="it"):
            read_elf(write(tmp_path / "x", GOOD[:length]))
