"""The dynamic loader's cache in all its forms, and in none."""

import struct
from pathlib import Path

import pytest

from dra_driver.cdi import ldcache
from dra_driver.inventory.fake_elf import loader_cache

X86_64, AARCH64, I386, X32 = 0x0303, 0x0A03, 0x0003, 0x0803
CUDA = {"libcuda.so.1": "/usr/lib64/libcuda.so.1"}


def old(*entries: tuple[int, str, str]) -> bytes:
    """A cache of the form that glibc 2.1 had."""
    strings, table = b"", b""
    for flags, name, path in entries:
        key = len(strings)
        strings += name.encode() + b"\0"
        table += struct.pack("<iII", flags, key, len(strings))
        strings += path.encode() + b"\0"
    return b"ld.so-1.7.0\0" + struct.pack("<I", len(entries)) + table + strings


def new(*entries: tuple[int, str, str], magic: bytes = b"glibc-ld.so.cache1.1", order: str = "<") -> bytes:
    start = 48 + 24 * len(entries)
    strings, table = b"", b""
    for flags, name, path in entries:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        table += struct.pack(f"{order}iIIIQ", flags, key, start + len(strings), 0, 0)
        strings += path.encode() + b"\0"
    byte_order = 2 if order == "<" else 3
    header = struct.pack(f"{order}20sIIB3xI12x", magic, len(entries), len(strings), byte_order, 0)
    return header + table + strings


def embedded(*entries: tuple[int, str, str]) -> bytes:
    """The new form behind the old one, as most caches of the last twenty years."""
    first = old((X86_64, "stale.so", "/stale.so"))
    table = first[: len(b"ld.so-1.7.0\0") + 4 + 12]
    return table + b"\0" * (-len(table) % 8) + new(*entries)


@pytest.mark.parametrize("form", [old, new, embedded])
def test_every_form_names_64_bit_libraries_in_order(form: type) -> None:
    cache = ldcache.parse(
        form(
            (X86_64, "libcuda.so.1", "/usr/lib64/libcuda.so.1"),
            (I386, "libcuda.so.1", "/usr/lib/libcuda.so.1"),
            (X32, "libcuda.so.1", "/usr/libx32/libcuda.so.1"),
            (AARCH64, "libcuda.so.1", "/usr/lib/aarch64-linux-gnu/libcuda.so.1"),
        )
    )

    expected = ("/usr/lib64/libcuda.so.1", "/usr/lib/aarch64-linux-gnu/libcuda.so.1")
    assert (expected, None) == (cache.paths("libcuda.so.1"), cache.problem)


def test_the_cache_of_a_simulated_root_can_be_read() -> None:
    assert ("/usr/lib64/libcuda.so.1",) == ldcache.parse(loader_cache(CUDA, "aarch64")).paths("libcuda.so.1")


def test_this_machines_own_cache_can_be_read() -> None:
    path = Path("/etc/ld.so.cache")
    if not path.exists():
        pytest.skip("this machine has no cache of the dynamic loader")
    cache = ldcache.parse(path.read_bytes())
    assert (None, True) == (cache.problem, bool(cache.paths("libc.so.6")))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"ld.so-1.7.0\0", id="old magic alone"),
        pytest.param(b"glibc-ld.so.cache1.1", id="new magic alone"),
        pytest.param(b"ld.so-9.9.9\0" + b"\0" * 100, id="another magic"),
        pytest.param(b"\x7fELF" + b"\0" * 100, id="a library"),
        pytest.param(new((X86_64, "a", "/a"), magic=b"glibc-ld.so.cache9.9"), id="a later form"),
        pytest.param(new((X86_64, "a", "/a"), order=">"), id="other byte order"),
        pytest.param(b"ld.so-1.7.0\0" + struct.pack(">I", 1) + b"\0" * 12, id="other byte order, old"),
        pytest.param(b"ld.so-1.7.0\0" + b"\xff" * 4, id="more entries than bytes"),
        pytest.param(new((X86_64, "a", "/a"))[:-1], id="last string without an end"),
        pytest.param(old((X86_64, "a", "/a"))[:-1], id="last string without an end, old"),
        pytest.param(
            struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", 2**31, 0, 0, 0), id="2^31 entries"
        ),
    ],
)
def test_whatever_is_no_cache_is_an_empty_one_with_the_reason(data: bytes) -> None:
    cache = ldcache.parse(data)

    assert () == cache.entries
    assert cache.problem


def test_a_cache_that_is_cut_off_anywhere_is_never_an_error() -> None:
    for whole in (old((X86_64, "libcuda.so.1", "/a")), embedded((X86_64, "libcuda.so.1", "/a"))):
        for length in range(len(whole)):
            assert ldcache.parse(whole[:length]).entries in {(), (("stale.so", "/stale.so"),)}


def test_strings_beyond_the_end_are_no_libraries() -> None:
    data = bytearray(new((X86_64, "a", "/a")))
    data[48 + 4 : 48 + 8] = struct.pack("<I", 2**32 - 1)

    assert ((), "it is cut off") == (ldcache.parse(bytes(data)).entries, ldcache.parse(bytes(data)).problem)
