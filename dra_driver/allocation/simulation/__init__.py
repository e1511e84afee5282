"""Who would get what: Pods placed one after the other by the allocator, from objects alone.

simulate(World(...), seed=None) -> Outcome
drained, tainted, without_claim: the same objects, what if
"""

from dra_driver.allocation.simulation.changes import DeviceTaint, drained, tainted, without_claim
from dra_driver.allocation.simulation.model import Outcome, Step, Usage, Waiting
from dra_driver.allocation.simulation.run import simulate
from dra_driver.allocation.simulation.usage import model_of

__all__ = [
    "DeviceTaint",
    "Outcome",
    "Step",
    "Usage",
    "Waiting",
    "drained",
    "model_of",
    "simulate",
    "tainted",
    "without_claim",
]
