"""The dynamic loader's cache, `/etc/ld.so.cache`: which directories of a root hold libraries.

It is used for directories that no list of well-known ones has, so whatever is wrong with it (other byte order,
cut off, of an unknown form) makes it an empty cache, with the reason, and never an error.

There are three forms (glibc sysdeps/generic/dl-cache.h): the old one; the new one; and the old one with the
new one behind it, where only the latter counts. All numbers are in the byte order of the machine that made the
cache: little-endian on every machine with an NVIDIA driver.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_OLD_MAGIC = b"ld.so-1.7.0\0"
_NEW_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_ENTRY = struct.Struct("<iII")  # flags, key, value
_NEW_HEADER = struct.Struct("<20sIIB3xI12x")  # magic, entries, string bytes, byte order, extensions
_NEW_ENTRY = struct.Struct("<iIIIQ")  # flags, key, value, OS version, hardware capabilities
_ANY_BYTE_ORDER, _LITTLE_ENDIAN = 0, 2
_ELF = 0x01
_ARCHITECTURE = 0xFF00
_64_BIT = frozenset({0x0300, 0x0A00})  # x86_64, aarch64


@dataclass(frozen=True, slots=True)
class LibraryCache:
    """64-bit libraries of the cache, as (name, path) in its order; `problem` says why there are none."""

    entries: tuple[tuple[str, str], ...] = ()
    problem: str | None = None

    def paths(self, name: str) -> tuple[str, ...]:
        """Where the cache has a library of this name, such as `libcuda.so.1`."""
        return tuple(path for entry, path in self.entries if entry == name)


def parse(data: bytes) -> LibraryCache:
    """The cache in `data`."""
    try:
        return LibraryCache(tuple(_entries(data)))
    except (struct.error, IndexError):
        return LibraryCache(problem="it is cut off")
    except ValueError as error:
        return LibraryCache(problem=str(error))


def _entries(data: bytes) -> Iterator[tuple[str, str]]:
    if data.startswith(_NEW_MAGIC):
        return _new(data, 0)
    if not data.startswith(_OLD_MAGIC):
        raise ValueError("it is of an unknown form")
    (number,) = struct.unpack_from("<I", data, len(_OLD_MAGIC))
    table = len(_OLD_MAGIC) + 4
    strings = table + number * _OLD_ENTRY.size
    if strings > len(data):
        raise ValueError("it is cut off, or of the other byte order")
    behind = (strings + 7) & ~7
    if data.startswith(_NEW_MAGIC, behind):
        return _new(data, behind)
    return _strings(data, strings, _OLD_ENTRY.iter_unpack(data[table:strings]))


def _new(data: bytes, base: int) -> Iterator[tuple[str, str]]:
    _, number, _, byte_order, _ = _NEW_HEADER.unpack_from(data, base)
    if byte_order & 3 not in {_ANY_BYTE_ORDER, _LITTLE_ENDIAN}:
        raise ValueError("it is of the other byte order")
    table = base + _NEW_HEADER.size
    end = table + number * _NEW_ENTRY.size
    if end > len(data):
        raise ValueError("it is cut off, or of the other byte order")
    return _strings(data, base, _NEW_ENTRY.iter_unpack(data[table:end]))


def _strings(data: bytes, base: int, entries: Iterator[tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    for flags, key, value, *_ in entries:
        if flags & _ELF and flags & _ARCHITECTURE in _64_BIT:
            yield _string(data, base + key), _string(data, base + value)


def _string(data: bytes, start: int) -> str:
    end = data.find(b"\0", start)
    if start >= len(data) or end < 0:
        raise IndexError
    return data[start:end].decode(errors="surrogateescape")
