"""Output formats that commands share."""

import json
import sys
from typing import Any

import yaml

from dra_driver.errors import UsageError

STRUCTURED = ("json", "yaml")
FORMATS = ("table", "lines", *STRUCTURED)


def format_of(output: str | None) -> str:
    """The format that is asked for, by itself a table on a terminal and lines elsewhere; UsageError for another."""
    if output is None:
        return "table" if sys.stdout.isatty() else "lines"
    if output not in FORMATS:
        raise UsageError(f"there is no output format {output}: expected one of {', '.join(FORMATS)}")
    return output


def rendered(*bodies: Any, output: str) -> str:
    """Data as JSON or YAML, with a newline at its end; of several YAML makes documents, and JSON a list."""
    if output == "json":
        return json.dumps(bodies[0] if len(bodies) == 1 else bodies, indent=2, ensure_ascii=False) + "\n"
    text: str = yaml.dump_all(bodies, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def printable(text: str) -> str:
    """Text for people: what a terminal would obey rather than show is written as an escape."""
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


class _Dumper(yaml.SafeDumper):
    """Writes equal parts out each time: other tools read it as well."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the method of the library
        return True
