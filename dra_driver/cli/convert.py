"""`dra-driver convert`: a configuration of NVIDIA's device plugin, as one of this driver.

Standard output is YAML: the node configuration, then classes to apply. Remarks on what differs go to standard error.
"""

import sys
from pathlib import Path

import yaml

from dra_driver.config.device_plugin import convert
from dra_driver.errors import UsageError
from dra_driver.inventory.document import parse, read_file


def run(file: str) -> int:
    """Print what `file` comes to, "-" for standard input; UsageError where it is no such configuration."""
    try:
        document = parse(sys.stdin.buffer.read(), "standard input") if file == "-" else read_file(Path(file))
    except FileNotFoundError as error:
        raise UsageError(f"{file} cannot be read: there is no such file") from error
    found = convert(document)
    print(yaml.safe_dump_all([found.node, *found.classes], sort_keys=False), end="")
    for remark in found.remarks:
        print(f"remark: {remark}", file=sys.stderr)
    return 0
