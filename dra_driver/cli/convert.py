"""`dra-driver convert`: a configuration of NVIDIA's device plugin, as one of this driver.

Standard output is YAML: the node configuration, then classes to apply. Remarks on what differs go to standard error.
"""

import sys

import yaml

from dra_driver.cli.sources import STDIN, content
from dra_driver.config.device_plugin import convert
from dra_driver.inventory.document import MAX_BYTES, parse


def run(file: str) -> int:
    """Print what `file` comes to, "-" for standard input; UsageError where it is no such configuration."""
    found = convert(parse(content(file, MAX_BYTES), "standard input" if file == STDIN else file))
    print(yaml.safe_dump_all([found.node, *found.classes], sort_keys=False), end="")
    for remark in found.remarks:
        print(f"remark: {remark}", file=sys.stderr)
    return 0
