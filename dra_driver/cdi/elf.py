"""The head of an ELF library: which machine it is for, and the name that programs ask the loader for.

A driver's libraries are found by their files' names, which carry the driver's version; programs want them by
their DT_SONAME ("libcuda.so.1"). It is read the way the loader does, through the program headers, since section
headers may be stripped. Only 64-bit little-endian libraries are of interest: 32-bit ones are not injected.

The few bytes are read, not mapped: a file that an installer truncates meanwhile would kill the process.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")  # up to and with e_shstrndx
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_DYNAMIC = struct.Struct("<qQ")  # tag, value
_CLASS_64, _LITTLE_ENDIAN, _SHARED_OBJECT = 2, 1, 3
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14
_MAX_NAME = 255
_MAX_TABLE, _MAX_OFFSET = 1 << 20, 1 << 62  # beyond, the numbers are no numbers of a library


class Machine(IntEnum):
    """e_machine of the machines with an NVIDIA driver."""

    X86_64 = 62
    AARCH64 = 183

    @property
    def triplet(self) -> str:
        """The directory below /usr/lib that Debian keeps this machine's libraries in."""
        return "x86_64-linux-gnu" if self is Machine.X86_64 else "aarch64-linux-gnu"


@dataclass(frozen=True, slots=True)
class Elf:
    """What is known of a library; `soname` is None where it has none."""

    machine: Machine
    soname: str | None


def read_elf(path: str) -> Elf:
    """The library at `path`; ValueError where it is none for our machines, OSError where it cannot be read."""
    with open(path, "rb") as file:  # noqa: PTH123 - paths are strings here, see `dra_driver.cdi.root`
        return _parse(file)


def _parse(file: BinaryIO) -> Elf:
    start = file.read(_HEADER.size)
    if start[:4] != b"\x7fELF":
        raise ValueError("it is no ELF file")
    if start[4:6] != bytes((_CLASS_64, _LITTLE_ENDIAN)):
        raise ValueError("it is no 64-bit little-endian library")
    if len(start) < _HEADER.size:
        raise ValueError("it is cut off")
    header = _HEADER.unpack(start)
    kind, machine, headers, size, number = header[3], header[4], header[7], header[11], header[12]
    if kind != _SHARED_OBJECT or machine not in set(Machine) or size != _PROGRAM_HEADER.size:
        raise ValueError("it is no library for x86_64 or aarch64")
    loads, dynamic = [], b""
    for entry in _PROGRAM_HEADER.iter_unpack(_read(file, headers, number * size)):
        type_, _, offset, address, _, length, *_ = entry
        if type_ == _PT_LOAD:
            loads.append((address, length, offset))
        elif type_ == _PT_DYNAMIC:
            dynamic = _read(file, offset, length - length % _DYNAMIC.size)
    return Elf(Machine(machine), _soname(file, dynamic, loads))


def _soname(file: BinaryIO, dynamic: bytes, loads: list[tuple[int, int, int]]) -> str | None:
    tags: dict[int, int] = {}
    for tag, value in _DYNAMIC.iter_unpack(dynamic):
        if tag == _DT_NULL:
            break
        tags.setdefault(tag, value)
    if _DT_SONAME not in tags or _DT_STRTAB not in tags:
        return None
    strings = tags[_DT_STRTAB]
    for address, size, at in loads:
        if address <= strings < address + size:
            text = _read(file, at + strings - address + tags[_DT_SONAME], _MAX_NAME + 1, or_less=True)
            name, end, _ = text.partition(b"\0")
            if not end:
                raise ValueError("its soname has no end")
            return name.decode(errors="surrogateescape")
    raise ValueError("its table of strings is nowhere")


def _read(file: BinaryIO, offset: int, length: int, *, or_less: bool = False) -> bytes:
    if length > _MAX_TABLE or offset > _MAX_OFFSET:
        raise ValueError("its tables are too large")
    file.seek(offset)
    data = file.read(length)
    if len(data) < length and not or_less:
        raise ValueError("it is cut off")
    return data
