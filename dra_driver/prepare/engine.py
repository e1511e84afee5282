"""The claim engine: Prepare and Unprepare as the kubelet asks for them, and the start after a crash.

Prepare plans everything, reserves the devices, writes the device metadata and the CDI spec that mounts it, and then
the record: three small files, and the record is the commit. Killed before it, the others are orphans that the next
start removes; killed after it, the claim is prepared and the kubelet's retry gets the same answer. Unprepare goes the other way round:
while the record is there the claim holds its devices, so a kill in between leaves a claim whose files the next
start writes again, until the kubelet's retry.

Preparing again costs one GET and a look at the spec, which is written again where it is gone or no longer
what the hardware needs (a GPU's minor changed). The claim is fetched even then: one that outlived its Pod
may have been allocated other devices since, under the same UID.

Where the node has to be changed (see `dra_driver.steps`), a record of the intent comes first, with the state "started":
whatever it says was made is taken back by the retry, by Unprepare, or by the next start. There is no timer for it: the
kubelet writes a claim down before it calls us, and repeats Prepare, and after its Pod Unprepare, until one succeeds,
also across restarts. Unprepare marks it so before it undoes anything, so that a kill half-way is no prepared claim; on a
full disk it does without, and the kubelet, which has no answer yet, comes again.

Locks: calls for one claim are serial, the API server's answer included. What belongs to the claim has a lock of its own, so
that `repair` waits for no network. Nothing else is held while network or hardware answers; the indexes of records and
conflicts have locks of their own, for a few instructions each. What needs neither network nor steps is done by one
call at a time: a dozen system calls each of which hands the interpreter to another claim take longer than all in turn.
There a Prepare, for which a Pod waits to start, goes before Unprepares, of which one at a time stands in line.

Failures: whatever is raised, the call left nothing of its own behind, and the kubelet's retry starts afresh. Only where
the hardware was lost meanwhile, the claim stays prepared, as one that was prepared before.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from dra_driver.cdi.edits import EditSource
from dra_driver.cdi.names import is_claim_uid
from dra_driver.cdi.spec import Spec
from dra_driver.cdi.store import SpecStore
from dra_driver.devices.model import HeldDevice
from dra_driver.devices.snapshot import Snapshot
from dra_driver.errors import ClaimError, DriverError, UnavailableError, one_line
from dra_driver.kube.errors import NotFoundError
from dra_driver.locks import Locks, Turn
from dra_driver.partitions import mig_device
from dra_driver.partitions.mig_device import MigDevices
from dra_driver.prepare.claim import Allocation, ClaimRef, ClaimSource, check_ref, read_allocation
from dra_driver.prepare.claim_files import ClaimFiles
from dra_driver.prepare.conflicts import Conflicts
from dra_driver.prepare.metadata_store import MetadataStore
from dra_driver.prepare.partitions import with_partitions
from dra_driver.prepare.plan import Plan, Planner
from dra_driver.prepare.record import PreparedDevice, Record, State
from dra_driver.prepare.records import RecordStore
from dra_driver.prepare.restore import RestoreReport, Unresolved
from dra_driver.prepare.steps import StepRunner
from dra_driver.sharing.sharing import NodeSharing
from dra_driver.steps import StepKind

log = structlog.get_logger(__name__)


class Engine:
    """All claims of one driver on this node. Thread-safe.

    `load` comes before anybody asks what is held, `restore` before any call is served.
    """

    def __init__(
        self,
        *,
        driver_name: str,
        pool_name: str,
        claims: ClaimSource,
        hardware: Callable[[], Snapshot],
        edits: EditSource,
        records: RecordStore,
        specs: SpecStore,
        metadata: MetadataStore,
        partitions: MigDevices | None = None,
        sharing: NodeSharing | None = None,
    ) -> None:
        self._driver_name = driver_name
        self._claims = claims
        self._hardware = hardware
        self._records = records
        self._specs = specs
        self._files = ClaimFiles(specs, metadata)
        self._planner = Planner(
            pool_name=pool_name,
            hardware=hardware,
            edits=edits,
            specs=specs,
            metadata=metadata,
            partitions=partitions,
            sharing=sharing,
        )
        kinds: dict[str, StepKind] = {} if partitions is None else {mig_device.KIND: partitions}
        self._steps = StepRunner(kinds | dict(sharing.kinds if sharing else {}), records)
        self._conflicts = Conflicts()
        self._calls = Locks()  # by claim: of the kubelet's calls
        self._locks = Locks()  # by claim: of its record and files
        self._turn = Turn()
        self._dropped: tuple[Record, ...] | None = None  # None: nothing was read yet

    def prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        """Make the claim's devices ready for containers; what the kubelet is to be told of them.

        Raises a DriverError whose text fits into the Pod's event.
        """
        check_ref(ref)
        with self._calls.hold(ref.uid):
            claim = self._fetch(ref)
            with self._locks.hold(ref.uid):
                look = self._hardware()
                record = self._prepare(claim, ref)
                if self._hardware() != look:  # whose repair may have come before the record
                    self._prepare_again(record)
                return self._answer(record)

    def _prepare(self, claim: Mapping[str, Any], ref: ClaimRef) -> Record:
        with self._turn.taken():
            allocation = read_allocation(claim, ref, self._driver_name)
            record = self._records.get(ref.uid)
            if record is None:
                plan = self._plan(allocation)
                if not plan.steps:
                    return self._prepare_at_once(plan)
        if record is not None:
            if _is_of(record, allocation) and self._steps.are_intact(record):
                return self._prepare_again(record)
            log.warning("earlier preparation undone", state=str(record.state))
            self._undo(ref.uid)
            plan = self._plan(allocation)
        return self._prepare_in_steps(plan) if plan.steps else self._prepare_at_once(plan)

    def unprepare(self, ref: ClaimRef) -> None:
        """Undo whatever was done for the claim; a claim that is unknown is no error.

        Needs no API server, and does not look at configuration. The hardware is needed only to take back what was
        changed on it for the claim (a MIG device, a time-slice, a compute mode).
        """
        if not is_claim_uid(ref.uid):
            return  # prepare refuses it, so there is nothing of it
        with self._calls.hold(ref.uid), self._locks.hold(ref.uid):
            record = self._records.get(ref.uid)
            if record is not None and record.steps:
                self._undo(ref.uid)
            else:
                with self._turn.taken_behind():
                    self._undo(ref.uid)

    def held(self) -> tuple[HeldDevice, ...]:
        """The devices that must stay published; those held with admin access only take nothing from the pool."""
        return tuple(
            HeldDevice(recorded.device, str(record.ref), record.ref.uid)
            for record in self._records.all()
            for recorded in record.devices
            if not recorded.admin_access
        )

    def load(self) -> None:
        """Read what earlier processes left; from here on `held` is right, whatever the hardware answers.

        Records of another boot are dropped, damaged ones set aside. UnavailableError where the directory
        cannot be read at all.
        """
        self._dropped = self._records.load()
        for record in self._records.all():
            self._conflicts.restore(record.ref, record.devices)

    def restore(self) -> RestoreReport:
        """Bring records, CDI directory and hardware in line, after a start; loads where nobody did so before.

        Half-done preparations are undone; specs are written again where they are missing or stale; and specs
        without a record are removed, except those of damaged records, whose containers may still run. What
        cannot be put right now is listed, and does not stop the others. UnavailableError where a directory
        cannot be read at all.
        """
        if self._dropped is None:
            self.load()
        report = self.repair()
        if not self._records.damaged():  # else what looks like nobody's may be of a claim that still runs
            self._steps.restore()
        known = {record.ref.uid for record in self._records.all()}
        known.update(damaged.claim_uid for damaged in self._records.damaged())
        return RestoreReport(
            held=len(self._records.all()),
            dropped=tuple(record.ref for record in self._dropped or ()),
            damaged=self._records.damaged(),
            undone=report.undone,
            rewritten=report.rewritten,
            orphans=self._files.remove_all_but(known),
            unresolved=report.unresolved,
        )

    def repair(self) -> RestoreReport:
        """Compare every record with hardware and spec, as `restore` does; for when hardware came back."""
        undone, rewritten, unresolved = [], [], []
        for ref, state in [(record.ref, record.state) for record in self._records.all()]:
            if state is State.STARTED and self._locks.is_held(ref.uid):
                continue  # being prepared or undone, which may take long
            with self._locks.hold(ref.uid):
                record = self._records.get(ref.uid)
                if record is None:
                    continue  # unprepared meanwhile
                try:
                    if record.state is State.STARTED:
                        self._undo(ref.uid)
                        undone.append(ref)
                    else:
                        described = self._files.ensure(record, None)  # which needs no driver
                        if self._files.ensure(record, self._spec(record)) or described:
                            rewritten.append(ref)
                except DriverError as error:
                    unresolved.append(Unresolved(ref, str(error)))
                except Exception as error:  # what a record says must cost neither the others nor the start
                    log.exception(
                        "claim not checked for a reason that is a fault of this driver", claim_uid=ref.uid
                    )
                    unresolved.append(Unresolved(ref, f"internal error: {one_line(error)}"))
        return RestoreReport(
            held=len(self._records.all()),
            undone=tuple(undone),
            rewritten=tuple(rewritten),
            unresolved=tuple(unresolved),
        )

    def _fetch(self, ref: ClaimRef) -> dict[str, Any]:
        try:
            return self._claims.get_claim(ref.namespace, ref.name)
        except NotFoundError as error:
            raise ClaimError(
                f"claim {ref} does not exist any more; delete its Pod, so that a new one is made with a new claim"
            ) from error

    def _plan(self, allocation: Allocation) -> Plan:
        return self._planner.plan(allocation, self._records.boot_id)

    def _prepare_at_once(self, plan: Plan) -> Record:
        record = plan.record
        spec = self._planner.spec(record)
        self._conflicts.reserve(record.ref, record.devices)
        try:
            with self._files.written(record, spec):
                self._records.write(record)
        except Exception:
            self._conflicts.release(record.ref.uid)
            raise
        return record

    def _prepare_in_steps(self, plan: Plan) -> Record:
        """The same where the node is changed: the intent is recorded first, and each change before the next."""
        record = replace(plan.record, state=State.STARTED)
        self._conflicts.reserve(record.ref, record.devices)
        try:
            self._records.write(record)
            record = self._steps.run(record, plan.steps)
            done = self._steps.result(record)
            record = with_partitions(replace(record, state=State.COMPLETED), done.partitions)
            spec = self._planner.spec(record, done)
            self._files.ensure(record, spec)
            self._records.write(record)
        except Exception:
            try:
                self._undo(record.ref.uid)
            except DriverError as error:
                # The record says what is left. The retry, Unprepare and the next start go on from there.
                log.warning("failed preparation is not undone yet", err=str(error))
            raise
        return record

    def _spec(self, record: Record) -> Spec:
        return self._planner.spec(record, self._steps.result(record))

    def _prepare_again(self, record: Record) -> Record:
        try:
            spec = self._spec(record)
        except UnavailableError:
            if not self._files.has_spec(record.ref.uid):
                raise
            spec = None  # the driver cannot be asked, and it is there
        if self._files.ensure(record, spec):
            log.warning("CDI spec or device metadata written again")
        return record

    def _undo(self, claim_uid: str) -> None:
        record = self._records.get(claim_uid)
        if record is not None and record.steps and record.state is not State.STARTED:
            record = replace(record, state=State.STARTED)
            self._records.write_if_possible(record)
        self._files.remove(claim_uid, record)
        if record is not None:
            self._steps.undo(record)
        self._records.remove(claim_uid)
        self._conflicts.release(claim_uid)

    def _answer(self, record: Record) -> tuple[PreparedDevice, ...]:
        uid = record.ref.uid
        return tuple(
            PreparedDevice(
                request_names=recorded.requests,
                pool=recorded.pool,
                device=recorded.name,
                cdi_ids=(self._specs.qualified_name(uid, recorded.name, recorded.share_id),),
                share_id=recorded.share_id,
            )
            for recorded in record.devices
        )


def _is_of(record: Record, allocation: Allocation) -> bool:
    """Whether the record is this allocation's, and done."""
    return record.state is State.COMPLETED and {
        (recorded.pool, recorded.name, recorded.share_id, request)
        for recorded in record.devices
        for request in recorded.requests
    } == {(result.pool, result.device, result.share_id, result.base_request) for result in allocation.results}
