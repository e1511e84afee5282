"""The files that a command was given: their names and contents."""

import os
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

    Contents and errors as of `content`.
    """
    for name in names:
        if name == STDIN:
            yield stdin_name, content(STDIN, max_bytes)
            continue
        for path in _below(name) if _is_directory(name) else [name]:
            yield path, content(path, max_bytes)


def content(name: str, max_bytes: int) -> bytes:
    """What is in a file, "-" is standard input.

    At most one byte more than `max_bytes` is read, so that the caller sees whether it is too large. UsageError names
    what cannot be read.
    """
    if not name:
        raise UsageError("the name of a file is empty")
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise UsageError("standard input is closed")
            return sys.stdin.buffer.read(max_bytes + 1)
        with Path(name).open("rb") as file:
            return file.read(max_bytes + 1)
    except FileNotFoundError:
        raise UsageError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _unreadable(name, error) from error


def _is_directory(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:
        return False  # reading it tells why


def _below(directory: str) -> list[str]:
    def fail(error: OSError) -> None:
        raise _unreadable(str(error.filename), error) from error

    paths = (Path(root, name) for root, _, names in os.walk(directory, onerror=fail) for name in names)
    found = sorted(path for path in paths if path.suffix in _SUFFIXES and path.is_file())
    if not found:
        raise UsageError(f"there are no YAML or JSON files in {directory}")
    return [str(path) for path in found]


def _unreadable(name: str, error: OSError | ValueError) -> UsageError:
    return UsageError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}")
