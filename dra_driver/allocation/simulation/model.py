"""What a simulation gives."""

from dataclasses import dataclass

from dra_driver.allocation.diagnosis import ClaimState, Diagnosis


@dataclass(frozen=True, slots=True)
class Step:
    """One Pod, or a claim that no Pod uses, in the order of trying; `node` is None where it stays pending."""

    kind: str  # "pod" or "claim"
    name: str  # namespace/name
    node: str | None
    claims: tuple[ClaimState, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pods of one kind that stay pending, and why, as seen at the end."""

    names: tuple[str, ...]
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Usage:
    """The devices of one model; `free` could be had one by one, by a claim that selects nothing else.

    `left` is what is left of the memory of devices that may be shared, in bytes; None where none may.
    """

    model: str
    nodes: int
    devices: int
    used: int
    free: int
    most_on_one_node: int  # of the free ones
    left: int | None = None
    memory: int | None = None  # of those devices in all

    @property
    def fragmentation(self) -> float:
        """How much of what is free lies elsewhere than on the node with most: 0 where all is on one node."""
        return 0.0 if not self.free else 1 - self.most_on_one_node / self.free


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of it."""

    steps: tuple[Step, ...]
    waiting: tuple[Waiting, ...]
    usage: tuple[Usage, ...]

    @property
    def complete(self) -> bool:
        """Whether everything got its devices."""
        return not self.waiting
