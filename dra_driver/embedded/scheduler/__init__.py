"""The scheduler of the embedded cluster: real allocation, simple placement.

What DRA makes of a Pod is done as kube-scheduler's plugin does it (the order of writes, the special claim of
extended resources, the texts); what else it weighs (cpu, affinity between Pods, preemption) is not here, and
nodes are scored by how few Pods they have. See `dra_driver.allocation` for which devices are chosen.
"""

from dra_driver.embedded.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
