"""Steps of claims, run and undone so that the claim's record always says what there is to undo.

Each state that a step saves is written into the record before the step goes on, and a step leaves the record once it is
undone, while its locks are still held. So whatever other claims are shown of their neighbours is true, and a process
that ends anywhere leaves a record from which `undo` goes on. Locks are held one step at a time, always in the order
of their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import structlog

from dra_driver.cdi.spec import ContainerEdits
from dra_driver.errors import UnavailableError
from dra_driver.locks import Locks
from dra_driver.prepare.record import Record, RecordedStep
from dra_driver.prepare.records import RecordStore
from dra_driver.steps import NOTHING, OtherStep, State, Step, StepKind, StepResult

log = structlog.get_logger(__name__)


class StepRunner:
    """All steps of one driver on this node. Thread-safe as long as claims differ."""

    def __init__(self, kinds: Mapping[str, StepKind], records: RecordStore) -> None:
        self._kinds = kinds
        self._records = records
        self._locks = Locks()

    def run(self, record: Record, steps: Sequence[Step]) -> Record:
        """Make all changes; the record with what was saved of them.

        Where one raises, the record that is stored says what `undo` has to take back.
        """
        for step in steps:
            before = record

            def save(state: State, step: Step = step, before: Record = before) -> None:
                nonlocal record
                recorded = RecordedStep(step.kind, step.locks, state)
                record = replace(before, steps=(*before.steps, recorded))
                self._records.write(record)

            with self._hold(step.locks):
                step.do(save, self._others(record, step.kind), self.result(record))
        return record

    def undo(self, record: Record) -> Record:
        """Take back all changes, the latest first; raises where one cannot be now, with the rest recorded still."""
        while record.steps:
            *rest, last = record.steps
            kind = self._kind(record, last)
            with self._hold(last.locks):
                kind.undo(last.state, self._others(record, last.kind))
                record = replace(record, steps=tuple(rest))
                self._records.write_if_possible(record)  # else it is undone once more after a crash
        return record

    def result(self, record: Record) -> StepResult:
        """What the recorded steps mean to the claim's containers."""
        if not record.steps:
            return NOTHING
        results = [self._kind(record, step).result(step.state) for step in record.steps]
        partitions = {name: made for result in results for name, made in result.partitions.items()}
        return StepResult(partitions, _joined(results))

    def are_intact(self, record: Record) -> bool:
        """Whether all that the steps made is still there, as far as can be told now; HardwareError where it has to be."""
        try:
            return all(self._kind(record, step).is_intact(step.state) for step in record.steps)
        except UnavailableError as error:
            log.warning("changes to the node cannot be checked", err=str(error))
            return True

    def restore(self) -> None:
        """After a start: have each kind put right what records do not account for."""
        for name, kind in self._kinds.items():
            try:
                kind.restore(self._recorded(name))
            except Exception:
                # A record of another shape: the start goes on, and nothing of anybody's is cleared away.
                log.exception(
                    "changes without a record not looked for, for a reason that is a fault of this driver",
                    kind=name,
                )

    def _recorded(self, kind: str, but: str | None = None) -> list[OtherStep]:
        return [
            OtherStep(str(record.ref), step.state)
            for record in self._records.all()
            if record.ref.uid != but
            for step in record.steps
            if step.kind == kind
        ]

    def _others(self, record: Record, kind: str) -> list[OtherStep]:
        return self._recorded(kind, but=record.ref.uid)

    def _kind(self, record: Record, step: RecordedStep) -> StepKind:
        kind = self._kinds.get(step.kind)
        if kind is None:
            raise UnavailableError(
                f"claim {record.ref} was prepared by a release that changed the node in a way that this one does not "
                f"know ({step.kind}); install that release again"
            )
        return kind

    @contextmanager
    def _hold(self, names: Sequence[str]) -> Iterator[None]:
        with ExitStack() as held:
            for name in sorted(set(names)):
                held.enter_context(self._locks.hold(name))
            yield


def _joined(results: Sequence[StepResult]) -> dict[str, ContainerEdits]:
    edits: dict[str, ContainerEdits] = {}
    for result in results:
        for name, more in result.edits.items():
            edits[name] = edits.get(name, ContainerEdits()) + more
    return edits
