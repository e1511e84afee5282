"""One pass that brings the API server's slices in line with the devices.

A pass plans on the reflector's copy, which also knows the answers to our own writes, and writes in the plan's
order until something goes wrong. What is learnt on the way (see `slices.lessons`), or that somebody else wrote
first, starts it over at once, a few times; all else is the publisher's to try again, or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from dra_driver.devices.model import DeviceSet
from dra_driver.kube.client import Client
from dra_driver.kube.errors import BadRequestError, InvalidError, NotFoundError, ObjectConflictError
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import NODES, RESOURCE_SLICES
from dra_driver.slices.compare import DroppedField, fingerprint
from dra_driver.slices.diff import Plan, Pool, Slice, plan
from dra_driver.slices.lessons import Lessons
from dra_driver.slices.pack import Content, Packed, Withheld, pack

log = structlog.get_logger(__name__)

_CONFLICTS = 3  # in a row, before the publisher waits


@dataclass(frozen=True, slots=True)
class Written:
    """How the pool stands after a pass, and what the pass did."""

    generation: int
    slices: int
    devices: int
    withheld: tuple[Withheld, ...]
    dropped_fields: tuple[DroppedField, ...]
    writes: int


class _StartOverError(Exception):
    """Pack and plan again, now."""


class Writer:
    """Writes the slices of one pool; used by one thread."""

    def __init__(self, client: Client, reflector: Reflector, pool: Pool) -> None:
        self._client = client
        self._reflector = reflector
        self._pool = pool
        self._lessons = Lessons()
        self._writes = 0

    def sync(self, devices: DeviceSet, *, repairs_only: bool = False) -> Written:
        """Write what differs from `devices`; with `repairs_only` not before something is missing or there twice.

        ApiError, UnavailableError: try again later. RefusedError: not before the devices change.
        """
        self._writes = 0
        conflicts = 0
        # Looked up each time, as the Node may have been made anew: its slices would be collected with the old one.
        node_uid = str(self._client.get(NODES, self._pool.node)["metadata"]["uid"])
        # Each start over withholds a device, gives up the counters, or is a conflict: so this ends.
        while True:
            packed = pack(
                devices,
                counters=self._lessons.counters,
                refused=self._lessons.refused_devices(devices),
            )
            todo = plan(
                self._own_slices(), packed.contents, self._pool, node_uid=node_uid, kept=self._lessons.kept
            )
            try:
                if todo.repairs or not repairs_only:
                    self._apply(todo, packed, devices)
            except _StartOverError:
                continue
            except ObjectConflictError as error:
                conflicts += 1
                if conflicts > _CONFLICTS:
                    raise
                log.debug("a slice was written by somebody else, reading again", err=str(error))
                self._read_again()
                continue
            self._lessons.forget_all_but(packed.contents)
            return Written(
                generation=todo.generation,
                slices=len(packed.contents),
                devices=sum(len(content.devices) for content in packed.contents),
                withheld=packed.withheld,
                dropped_fields=self._lessons.dropped(packed.contents),
                writes=self._writes,
            )

    def _own_slices(self) -> list[dict[str, Any]]:
        """The slices that are ours to write: never another driver's or node's, whatever a server lists."""
        return [
            candidate
            for candidate in self._reflector.snapshot()
            if candidate["spec"].get("driver") == self._pool.driver
            and candidate["spec"].get("nodeName") == self._pool.node
        ]

    def _read_again(self) -> None:
        for candidate in self._own_slices():
            try:
                self._reflector.adopt(self._client.get(RESOURCE_SLICES, candidate["metadata"]["name"]))
            except NotFoundError:
                self._reflector.forget(candidate)

    def _apply(self, todo: Plan, packed: Packed, devices: DeviceSet) -> None:
        for candidate in todo.delete:
            self._delete(candidate)
        for index, body in todo.update:
            self._write(body, packed.contents[index], devices, create=False)
        for index, body in todo.create:
            self._write(body, packed.contents[index], devices, create=True)

    def _delete(self, candidate: Slice) -> None:
        metadata = candidate["metadata"]
        try:
            self._client.delete(
                RESOURCE_SLICES,
                metadata["name"],
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
        except NotFoundError:
            log.debug("a slice to delete is gone already", slice=metadata["name"])
        self._reflector.forget(candidate)
        self._writes += 1
        log.info("slice deleted", slice=metadata["name"], pool=candidate["spec"]["pool"]["name"])

    def _write(self, body: Mapping[str, Any], content: Content, devices: DeviceSet, *, create: bool) -> None:
        self._lessons.check(fingerprint(content.as_spec()))
        send = self._client.create if create else self._client.replace
        try:
            stored = send(RESOURCE_SLICES, body)
        except (InvalidError, BadRequestError) as error:
            self._lessons.refused(error, content, devices)
            raise _StartOverError from error
        except NotFoundError as error:
            if create:
                raise
            self._read_again()  # deleted at this moment
            raise _StartOverError from error
        self._reflector.adopt(stored)
        self._writes += 1
        log.info(
            "slice created" if create else "slice updated",
            slice=stored["metadata"]["name"],
            generation=body["spec"]["pool"]["generation"],
            devices=len(content.devices),
        )
        if self._lessons.stored(content, stored["spec"]):
            raise _StartOverError
