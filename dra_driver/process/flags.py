"""A table of flags, read from the command line and the environment.

Each flag can be given as an environment variable of the same name in capitals; the command line wins, and a variable
that is empty counts as not given. The table is also what the reference pages are made from, so neither can say more
than the other. argparse rather than typer: the node plugin starts on every node, and typer costs it a fifth of a second.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from dra_driver.errors import UsageError


class Flag(NamedTuple):
    name: str
    default: str | None
    help: str
    aliases: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()  # further ones, beside the flag's own
    choices: tuple[str, ...] | None = None


LOGGING = (
    Flag("log-format", "text", "text or json", choices=("text", "json")),
    Flag("log-level", "info", "debug, info, warning or error", choices=("debug", "info", "warning", "error")),
)


class Values:
    """The texts that flags were given, by their names with underscores; UsageError says which one is wrong."""

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self._texts = texts

    def __getitem__(self, key: str) -> str | None:
        return self._texts[key] or None

    def text(self, key: str) -> str:
        value = self._texts[key]
        if not value:
            msg = f"{_flag(key)} (or {key.upper()}) is required and has no default"
            raise UsageError(msg)
        return value

    def path(self, key: str) -> Path | None:
        text = self[key]
        return None if text is None else Path(text)

    def directory(self, key: str) -> Path:
        path = Path(self.text(key))
        if not path.is_absolute():
            msg = f"{_flag(key)}: {str(path)!r} must be an absolute path"
            raise UsageError(msg)
        return path

    def number(self, key: str, low: float, high: float) -> float:
        text = self.text(key)
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            msg = f"{_flag(key)}: {text!r} must be a number from {low:g} to {high:g}"
            raise UsageError(msg)
        return value

    def address(self, key: str) -> str | None:
        """host:port, where the host may be left out; None where none was given."""
        text = self[key]
        if text is not None and not _is_address(text):
            msg = f"{_flag(key)}: {text!r} is not host:port, such as 127.0.0.1:8080 or :8080"
            raise UsageError(msg)
        return text


def read(
    table: Sequence[Flag],
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    command: str,
    description: str,
) -> Values:
    """What the flags of `table` were given; `--help` prints and exits, as argparse does."""
    environment = os.environ if environment is None else environment
    given = vars(_parser(table, command, description).parse_args(arguments))
    texts: dict[str, str | None] = {}
    for flag in table:
        key = flag.name.replace("-", "_")
        value, origin = given[key], f"--{flag.name}"
        if value is None:
            variable = next((v for v in (key.upper(), *flag.variables) if environment.get(v)), None)
            value, origin = (environment[variable], variable) if variable else (flag.default, origin)
        if flag.choices and value not in flag.choices:
            msg = f"{origin}: {value!r} is none of {', '.join(flag.choices)}"
            raise UsageError(msg)
        texts[key] = value
    return Values(texts)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _parser(table: Sequence[Flag], command: str, description: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"dra-driver {command}",
        description=description,
        epilog="Each flag can be given as an environment variable in capitals: --log-level as LOG_LEVEL.",
        allow_abbrev=False,
    )
    for flag in table:
        default = f" (default {flag.default})" if flag.default else ""
        parser.add_argument(
            *(f"--{name}" for name in (flag.name, *flag.aliases)),
            dest=flag.name.replace("-", "_"),
            metavar="VALUE",
            help=flag.help.replace("%", "%%") + default,
        )
    return parser


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    whole_host = ":" not in host or (host.startswith("[") and host.endswith("]"))
    return bool(colon) and whole_host and port.isascii() and port.isdigit() and int(port) <= 65535
