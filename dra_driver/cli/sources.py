"""The files that a command was given: their names and contents."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dra_driver.errors import UsageError

STDIN = "-"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


def read_sources(
    names: Sequence[str], max_bytes: int, *, stdin_name: str = STDIN
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file; of a directory, of all YAML and JSON files below it; "-" is standard input.

    At most one byte more than `max_bytes` is read of each, so that the caller sees which one is too large.
    UsageError names what cannot be read.
    """
    for name in names:
        if name == STDIN:
            yield stdin_name, sys.stdin.buffer.read(max_bytes + 1)
            continue
        path = Path(name)
        if not path.is_dir():
            yield name, _content(path, max_bytes)
            continue
        found = sorted(inner for inner in path.rglob("*") if inner.suffix in _SUFFIXES and inner.is_file())
        if not found:
            raise UsageError(f"there are no YAML or JSON files in {name}")
        for inner in found:
            yield str(inner), _content(inner, max_bytes)


def _content(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
