"""Nodes of simulated hardware as API objects: what the driver would publish on such machines."""

import re
from collections.abc import Container, Iterator
from typing import Any

from dra_driver.cli.worlds import node_object
from dra_driver.config.node import DEFAULT, NodeConfig
from dra_driver.devices.build import build_devices
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.errors import UsageError
from dra_driver.inventory.profile import Profile, load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.slices.pack import pack

Object = dict[str, Any]

_MAX_NODES = 10_000


def parse(text: str) -> list[tuple[str, int]]:
    """'dgx-h100=4,l40s=2' -> kinds of nodes and how many; a kind alone is one. UsageError says what is wrong."""
    found = []
    for part in text.split(","):
        name, equals, number = part.strip().rpartition("=")
        if not equals:
            name, number = number, "1"
        if not name or not number.isascii() or not number.isdigit() or not 1 <= int(number) <= _MAX_NODES:
            raise UsageError(
                f"{part.strip() or text!r}: expected PROFILE=NUMBER, such as dgx-h100=4; at most {_MAX_NODES}"
            )
        found.append((name, int(number)))
    return found


def nodes(text: str, taken: Container[str] = (), config: NodeConfig = DEFAULT) -> Iterator[Object]:
    """Node and ResourceSlice objects for kinds of nodes as `parse` reads them; names are not among those taken.

    `config` is how their GPUs are offered.
    """
    used: set[str] = set()
    for name, number in parse(text):
        profile = load_profile(name)
        base = re.sub(r"[^a-z0-9]+", "-", profile.name.lower()).strip("-") or "node"
        index = 0
        for _ in range(number):
            index += 1
            while f"{base}-{index}" in taken or f"{base}-{index}" in used:
                index += 1
            used.add(f"{base}-{index}")
            yield from _node(profile, f"{base}-{index}", config)


def _node(profile: Profile, name: str, config: NodeConfig) -> Iterator[Object]:
    yield node_object(name)
    contents = pack(build_devices(SimulatedBackend(profile, name).scan(), node=config)).contents
    pool = {"name": f"{name}/gpu", "generation": 1, "resourceSliceCount": len(contents)}
    for index, content in enumerate(contents):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{index:05x}-{DRIVER_NAME}-{name}"},
            "spec": {"driver": DRIVER_NAME, "nodeName": name, "pool": pool, **content.as_spec()},
        }
