"""Files of a simulated driver that have a binary form: libraries and the dynamic loader's cache.

A library here is an ELF file with a soname and nothing else. It says that it is for an operating system without a
loader (ELFOSABI_STANDALONE), so that nobody runs a program against it by mistake and gets further than the loader's
error. The cache is of glibc's new form.
"""

import struct
from collections.abc import Mapping

ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
TRIPLETS = {machine: f"{machine}-linux-gnu" for machine in ELF_MACHINES}
_CACHE_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03}
_STANDALONE = 255
_HEADER_SIZE, _PROGRAM_HEADER_SIZE = 64, 56
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_STRSZ, _DT_SONAME = 0, 5, 10, 14


def shared_library(soname: str, machine: str) -> bytes:
    """An ELF64 shared object for `machine` whose dynamic section holds this soname."""
    strings = b"\0" + soname.encode() + b"\0"
    dynamic_at = _HEADER_SIZE + 2 * _PROGRAM_HEADER_SIZE
    strings_at = dynamic_at + 4 * 16
    size = strings_at + len(strings)
    tags = ((_DT_SONAME, 1), (_DT_STRTAB, strings_at), (_DT_STRSZ, len(strings)), (_DT_NULL, 0))
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, _STANDALONE),
        *(3, ELF_MACHINES[machine], 1, 0, _HEADER_SIZE, 0, 0),
        *(_HEADER_SIZE, _PROGRAM_HEADER_SIZE, 2, 0, 0, 0),
    )
    load = struct.pack("<IIQQQQQQ", _PT_LOAD, 4, 0, 0, 0, size, size, 4096)
    pointer = struct.pack(
        "<IIQQQQQQ", _PT_DYNAMIC, 4, dynamic_at, dynamic_at, dynamic_at, len(dynamic), len(dynamic), 8
    )
    return header + load + pointer + dynamic + strings


def loader_cache(libraries: Mapping[str, str], machine: str) -> bytes:
    """An ld.so.cache with these libraries, name to path."""
    names = sorted(libraries, reverse=True)
    start = 48 + 24 * len(names)
    strings, entries = b"", b""
    for name in names:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        entries += struct.pack("<iIIIQ", _CACHE_FLAGS[machine], key, start + len(strings), 0, 0)
        strings += libraries[name].encode() + b"\0"
    header = struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(names), len(strings), 2, 0)
    return header + entries + strings
