"""Why a claim or Pod waits, from the objects of a cluster: what the scheduler looks at, and what it does not say.

    diagnose_pod(World(slices, classes, claims, templates, pods, nodes, events), pod) -> Diagnosis

Pure; objects may come from a cluster or from files, and are not changed.
"""

from dra_driver.allocation.diagnosis.model import AllocatedDevice, ClaimState, Diagnosis, Remark
from dra_driver.allocation.diagnosis.pods import diagnose_pod
from dra_driver.allocation.diagnosis.subjects import diagnose_claim, diagnose_template
from dra_driver.allocation.diagnosis.world import World

__all__ = [
    "AllocatedDevice",
    "ClaimState",
    "Diagnosis",
    "Remark",
    "World",
    "diagnose_claim",
    "diagnose_pod",
    "diagnose_template",
]
