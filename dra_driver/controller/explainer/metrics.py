"""The metrics of the explainer: all names and labels in one place.

What waits is counted by reason, which is one of a fixed list of words, never by claim, Pod or namespace, since there is
no bound to those. Only the leader counts; of the others every number but the leadership is absent.
"""

from collections import Counter as Count
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dra_driver.allocation.diagnosis.brief import REASONS

UNEXPLAINED = "unexplained"  # the answer is not worked out yet
_SECONDS = (0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the leader sees; counts by (kind of object, reason)."""

    pending: Mapping[tuple[str, str], int] = field(default_factory=Count)
    unreserved_claims: int = 0
    pools_without_driver: int = 0
    nodes_published_twice: int = 0


class Metrics:
    """Adds the explainer's metrics to a registry; `standing` is None until this replica has looked as the leader."""

    def __init__(self, registry: CollectorRegistry, is_leader: Callable[[], bool]) -> None:
        self.is_leader = is_leader
        self.standing: Standing | None = None
        self.seconds = Histogram(
            "dra_driver_explanation_duration_seconds",
            "Time taken by a turn of the leader: to look who waits, and to work out why.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.taint_rules = Counter(
            "dra_driver_taint_rules",
            "DeviceTaintRules written for pools without a driver, and deleted again.",
            ("operation",),
            registry=registry,
        )
        registry.register(_Standing(self))


class _Standing(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> list[GaugeMetricFamily]:
        return []  # or the registry would scrape once at registration

    def collect(self) -> Iterator[GaugeMetricFamily]:
        standing, is_leader = self._metrics.standing, self._metrics.is_leader()
        yield GaugeMetricFamily(
            "dra_driver_leader",
            "Whether this replica is the one that records Events.",
            value=float(is_leader),
        )
        if standing is None or not is_leader:
            return
        for kind, name in (("ResourceClaim", "claims"), ("Pod", "pods")):
            family = GaugeMetricFamily(
                f"dra_driver_pending_{name}",
                f"{kind}s of this driver's classes that wait, by the reason that their Event gives.",
                labels=("reason",),
            )
            for reason in (*REASONS, UNEXPLAINED):
                family.add_metric((reason,), standing.pending.get((kind, reason), 0))
            yield family
        for name, text, value in (
            (
                "unreserved_claims",
                "Claims that hold devices of this driver and are reserved for no Pod.",
                standing.unreserved_claims,
            ),
            (
                "pools_without_driver",
                "Pools that are offered though no node plugin is ready on their node.",
                standing.pools_without_driver,
            ),
            (
                "nodes_published_twice",
                "Nodes whose GPUs are offered by a device plugin too.",
                standing.nodes_published_twice,
            ),
        ):
            yield GaugeMetricFamily(f"dra_driver_{name}", text, value=float(value))
