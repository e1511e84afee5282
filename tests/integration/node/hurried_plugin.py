"""The node plugin, but for a look at its Node every 0.1 s instead of every minute. Usage: hurried_plugin.py FLAGS..."""

import sys

from dra_driver.node import flags
from dra_driver.node.main import serve

if __name__ == "__main__":
    sys.exit(serve(flags.parse(sys.argv[1:]), device_plugin_check_seconds=0.1))
