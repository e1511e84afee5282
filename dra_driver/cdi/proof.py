"""That container runtimes will take a claim's spec and find its devices, before the kubelet is told so.

A runtime skips a spec with any mistake in it, and drops a device that another file of the same directory has too; all
that shows is a Pod that cannot start. So both are looked at before a spec is written, by the rules of `validate` and
`registry`. Of files that are ours nothing is read: their names and devices start with the UID of their own claim. The
files of others are read once, and again when they change.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from dra_driver.cdi.names import is_device
from dra_driver.cdi.registry import is_spec_name, read_spec, spec_of
from dra_driver.cdi.shared import Shared
from dra_driver.cdi.spec import CdiDevice, ContainerEdits, Spec
from dra_driver.errors import ConflictError, HardwareError

_KEPT = 256  # more than a node has devices
_ANY_DEVICE = CdiDevice("any", ContainerEdits(env=("ANY=device",)))


class SpecProof:
    """The proof for specs in `directory`, where files that start with `prefix` are ours."""

    def __init__(self, directory: Path, prefix: str, fresh_seconds: float = 0.0) -> None:
        self._directory = directory
        self._prefix = prefix
        # Edits that claims share and that were found valid, by id.
        self._valid: dict[int, ContainerEdits] = {}
        self._others: Mapping[str, tuple[tuple[int, ...], frozenset[str]]] = {}  # name -> state, devices
        self._taken = Shared(self._devices_of_others, fresh_seconds=fresh_seconds)

    def check(self, claim_uid: str, spec: Spec) -> None:
        """HardwareError where a runtime would refuse the spec, ConflictError where another file has its devices."""
        self._check_shared(claim_uid, spec.edits, lambda: replace(spec, devices=(_ANY_DEVICE,)))
        for device in spec.devices:
            self._check_shared(claim_uid, device.edits, partial(_alone, spec, device))
        if not _is_plain(spec.devices):
            own = tuple(replace(device, edits=_ANY_DEVICE.edits) for device in spec.devices)
            self._check_valid(claim_uid, Spec(spec.kind, own))
        taken = self._taken.get()
        for device in spec.devices:
            name = f"{spec.kind}={device.name}"
            if name in taken:
                raise ConflictError(
                    f"the CDI device {name} of claim {claim_uid} stands in {self._directory / taken[name]} too, so that "
                    "container runtimes take neither; remove that file from the node"
                )

    def _check_shared(self, claim_uid: str, edits: ContainerEdits, spec: Callable[[], Spec]) -> None:
        """Check a spec in which `edits` are all that matters, unless that was done before."""
        if self._valid.get(id(edits)) is edits:
            return
        self._check_valid(claim_uid, spec())
        if len(self._valid) >= _KEPT:
            self._valid.clear()
        self._valid[id(edits)] = edits

    @staticmethod
    def _check_valid(claim_uid: str, spec: Spec) -> None:
        try:
            spec_of(spec.to_json().decode())
        except ValueError as error:
            raise HardwareError(
                f"container runtimes would refuse the CDI spec of claim {claim_uid} ({error}); "
                "look at the NVIDIA driver's files on the node"
            ) from error

    def _devices_of_others(self) -> dict[str, str]:
        """The devices in the files of others, and in which."""
        try:
            names = os.listdir(self._directory)  # noqa: PTH208 - names, of which there may be hundreds
        except OSError:
            return {}  # whoever writes into it hears of it
        self._others = {
            name: self._read(name) for name in names if not self._is_ours(name) and is_spec_name(name)
        }
        return {device: name for name, (_, devices) in self._others.items() for device in devices}

    def _is_ours(self, name: str) -> bool:
        return name.startswith(self._prefix) and name.endswith(".json")

    def _read(self, name: str) -> tuple[tuple[int, ...], frozenset[str]]:
        path = self._directory / name
        try:
            found = path.stat()
            state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
            known = self._others.get(name)
            if known is not None and known[0] == state:
                return known
            spec = read_spec(path)
        except (OSError, ValueError):
            return (), frozenset()  # runtimes skip it too
        return state, frozenset(f"{spec['kind']}={device['name']}" for device in spec["devices"])


def _alone(spec: Spec, device: CdiDevice) -> Spec:
    """A spec with nothing in it but what this device shares."""
    return Spec(spec.kind, (replace(device, own=ContainerEdits()),))


def _is_plain(devices: tuple[CdiDevice, ...]) -> bool:
    """Whether what these devices do not share is names and mounts, and so plain that no parse is needed to see it valid."""
    return len({device.name for device in devices}) == len(devices) and all(
        is_device(device.name)
        and device.own == ContainerEdits(mounts=device.own.mounts)
        and all(
            path and path.isascii()
            for mount in device.own.mounts
            for path in (mount.host_path, mount.container_path)
        )
        for device in devices
    )
