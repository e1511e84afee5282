"""Kinds that make Pods: where their Pod template stands, and where they say how many Pods there are to be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Workload:
    """One such kind."""

    template: str = "spec.template"  # the path of the Pod template
    count: str | None = (
        "spec.replicas"  # the path of a whole number, 1 where it is not given; None: one on each node
    )

    def template_of(self, obj: Mapping[str, Any]) -> Any:
        """What stands where the template should."""
        return _at(obj, self.template)

    def count_of(self, obj: Mapping[str, Any]) -> Any:
        """What stands where the number of Pods should; None where there is none."""
        return None if self.count is None else _at(obj, self.count)


WORKLOADS: Mapping[tuple[str, str], Workload] = {
    ("apps/v1", "Deployment"): Workload(),
    ("apps/v1", "ReplicaSet"): Workload(),
    ("apps/v1", "StatefulSet"): Workload(),
    ("v1", "ReplicationController"): Workload(),
    ("apps/v1", "DaemonSet"): Workload(count=None),
    ("batch/v1", "Job"): Workload(count="spec.parallelism"),
    ("batch/v1", "CronJob"): Workload("spec.jobTemplate.spec.template", "spec.jobTemplate.spec.parallelism"),
}


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
