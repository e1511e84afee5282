"""What a diagnosis is made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dra_driver.allocation.explanation import Explanation

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that is wrong (error), may be (warning), or is good to know (info)."""

    code: str
    severity: Severity
    text: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that a claim has, with what its slice says of it; "" where no slice does."""

    request: str
    driver: str
    pool: str
    device: str
    product: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """A claim as it stands: `state` in kubectl's words (pending, allocated, allocated,reserved)."""

    name: str  # namespace/name
    state: str
    node: str = ""  # what ties it to nodes: a node's name, or a selector in words; "" for all
    devices: tuple[AllocatedDevice, ...] = ()
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer about one claim or Pod."""

    kind: Literal["claim", "pod", "template"]
    name: str  # namespace/name
    summary: str
    remarks: tuple[Remark, ...] = ()
    claims: tuple[ClaimState, ...] = ()
    explanation: Explanation | None = None

    @property
    def fine(self) -> bool:
        """Whether it has its devices, or would get them."""
        unsatisfied = self.explanation is not None and not self.explanation.satisfiable
        return not unsatisfied and not any(remark.severity == "error" for remark in self.remarks)

    def holders(self) -> Iterator[str]:
        """Pods (namespace/name) that hold what this one lacks."""
        for node in self.explanation.nodes if self.explanation else ():
            for request in node.requests:
                for device in request.devices:
                    for blocker in device.blockers:
                        for holder in blocker.holders:
                            yield from holder.pods
