"""Changes to the node that outlive the call that makes them: how they are made, recorded and taken back.

A MIG device, a time-slice or an MPS daemon stays when the process dies, so whoever makes one must leave word of it
first. A `Step` is one such change, planned for a claim. Its `do` saves its state before each action that changes
anything, saying what is about to be done, and after it, saying what came out (an id that only the hardware knows). The
state is JSON in the claim's record. A `StepKind` works from that state alone, without API object, configuration or the
process that made it: `undo` takes back whatever was done of a step, however far it got, and is as right when
nothing was done or all was undone already.

Who asks sees to the order: steps of a claim run one after the other, and are undone in reverse. While `do` or `undo`
of a step runs, nobody else runs one with a lock of the same name, and `others` is what other claims recorded for
the kind at that moment; so settings that claims share are restored by the last of them, and two that disagree are
found. What takes long and needs no exclusion (waiting for a daemon) is a step of its own without locks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dra_driver.cdi.spec import ContainerEdits

State = Mapping[str, Any]  # JSON; never empty
Save = Callable[[State], None]  # durable when it returns; replaces what the step saved before


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG device that a step has made."""

    uuid: str  # "MIG-..."
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a finished step means to containers, by the name of the claim's device."""

    partitions: Mapping[str, Partition] = field(default_factory=dict)
    edits: Mapping[str, ContainerEdits] = field(default_factory=dict)


NOTHING = StepResult()


@dataclass(frozen=True, slots=True)
class OtherStep:
    """What another claim recorded for a step of the same kind."""

    claim: str  # "namespace/name", for messages
    state: State


class Step(Protocol):
    """A change that one claim asks for."""

    @property
    def kind(self) -> str:
        """The name of its `StepKind`: kebab-case, part of the record's format."""
        ...

    @property
    def locks(self) -> tuple[str, ...]:
        """Names of what nobody else may change meanwhile, such as the UUID of a GPU."""
        ...

    def do(self, save: Save, others: Sequence[OtherStep], done: StepResult) -> None:
        """Make the change; what was saved last is the step's state, and nothing is recorded if nothing was.

        `done` is what the claim's earlier steps came to. Raises a DriverError, after which `undo` takes back what
        was saved; ConflictError, before anything is changed, where another claim's setting is in the way.
        """
        ...


class StepKind(Protocol):
    """All steps of one kind. Thread-safe, and bounded in time."""

    def undo(self, state: State, others: Sequence[OtherStep]) -> None:
        """Take back what `state` says; UnavailableError or HardwareError where it cannot be now, to be tried again."""
        ...

    def result(self, state: State) -> StepResult:
        """What a step that ran to its end means to containers; nothing is asked or changed."""
        ...

    def is_intact(self, state: State) -> bool:
        """Whether what the step made is still there; a claim whose steps are not is prepared anew.

        UnavailableError where it cannot be told; HardwareError where no container may start before it can.
        """
        ...

    def restore(self, recorded: Sequence[OtherStep]) -> None:
        """After a start, when what was half done is undone: put right and clear away what no record accounts for.

        What cannot be done now is logged, and never stops the start.
        """
        ...
