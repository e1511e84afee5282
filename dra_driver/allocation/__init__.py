"""The structured allocator: which devices claims get on a node, as the scheduler of Kubernetes 1.37 decides.

    Snapshot(slices, classes, allocated).allocate(claims, node=...)  -> list of AllocationResult, None or an error

Pure: objects in, results out; no clock but the time limit, no API. The answer is the first that a depth-first
search finds, in the order of claims, requests, pools, slices and devices, so it is the same on every run and the
same as the scheduler's. `None`, or a NodeError with a reason, means that the claims do not fit on this node; any
other AllocationError that asking was wrong, for any node, as long as nothing changes (a selector fails, a class is
missing).
"""

from dra_driver.allocation.allocator import Snapshot, allocate
from dra_driver.allocation.errors import AllocationError, NodeError

__all__ = ["AllocationError", "NodeError", "Snapshot", "allocate"]
