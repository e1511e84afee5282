"""The metrics of the node plugin: all names and labels in one place.

No label carries a claim, Pod, namespace or error text: their number has no bound. Which claim failed and why
is in the log and in the Pod's events; here is how often and how long. What exists elsewhere (records, the
published devices, the registration) is read at the scrape by `State`, not set all over the code.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dra_driver import errors

# The longest that matters is kubelet's deadline of 45 s.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45)
_OUTCOMES = (
    (errors.ConfigError, "config"),
    (errors.ConflictError, "conflict"),
    (errors.ClaimError, "claim"),
    (errors.HardwareError, "hardware"),
    (errors.RecordError, "record"),
    (errors.ApiError, "api"),
    (errors.UnavailableError, "unavailable"),
    (errors.DriverError, "other"),
)


def outcome(error: Exception | None) -> str:
    """The label value of an outcome: "ok", or the kind of the error."""
    if error is None:
        return "ok"
    return next((name for kind, name in _OUTCOMES if isinstance(error, kind)), "internal")


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a scrape shows of the plugin's state."""

    registered: bool
    hardware_available: bool
    problems: int
    devices: dict[tuple[str, bool], int]  # (type, tainted) -> number published
    claims_held: int
    quarantined_records: int
    slices_synced: bool
    notes: Mapping[
        str, int
    ]  # standing remarks on devices, such as values that could not be published, by reason


@dataclass(slots=True)
class Metrics:
    """The plugin's registry and its counters."""

    registry: CollectorRegistry = field(default_factory=lambda: CollectorRegistry(auto_describe=True))
    claims: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    syncs: Counter = field(init=False)
    # The series themselves, which a lookup by label would check anew for every claim.
    _claims_ended: Callable[[str, str], Counter] = field(init=False)
    _claim_seconds: Callable[[str], Histogram] = field(init=False)

    def __post_init__(self) -> None:
        disable_created_metrics()  # a series more per counter, of use to nobody here
        self.claims = Counter(
            "dra_driver_claims",
            "Claims that the kubelet asked to prepare or unprepare, by how it ended.",
            ("operation", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "dra_driver_claim_duration_seconds",
            "Time taken per claim, successful or not.",
            ("operation",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._claims_ended = cache(self.claims.labels)
        self._claim_seconds = cache(self.seconds.labels)
        self.syncs = Counter(
            "dra_driver_slice_syncs",
            "Attempts to bring the ResourceSlices in line with the hardware, by how they ended.",
            ("outcome",),
            registry=self.registry,
        )

    def observe_claim(self, operation: str, error: Exception | None, seconds: float) -> None:
        self._claims_ended(operation, outcome(error)).inc()
        self._claim_seconds(operation).observe(seconds)

    def show(self, state: Callable[[], NodeState]) -> None:
        """Add the state, read at each scrape."""
        self.registry.register(_StateCollector(state))


class _StateCollector(Collector):
    def __init__(self, state: Callable[[], NodeState]) -> None:
        self._state = state

    def describe(self) -> list[GaugeMetricFamily]:
        return []  # or the registry would scrape once at registration

    def collect(self) -> Iterator[GaugeMetricFamily]:
        state = self._state()
        devices = GaugeMetricFamily(
            "dra_driver_devices",
            "Devices published, by type and whether they are tainted.",
            labels=("type", "tainted"),
        )
        for (kind, tainted), number in sorted(state.devices.items()):
            devices.add_metric((kind, str(tainted).lower()), number)
        yield devices
        notes = GaugeMetricFamily(
            "dra_driver_device_notes",
            "Remarks on devices that stand, by reason; the log says which.",
            labels=("reason",),
        )
        for reason, number in sorted(state.notes.items()):
            notes.add_metric((str(reason),), number)
        yield notes
        for name, text, value in (
            ("registered", "Whether the kubelet has registered the plugin.", state.registered),
            ("hardware_available", "Whether NVML and the driver answer.", state.hardware_available),
            ("hardware_problems", "Problems found at the last look at the hardware.", state.problems),
            ("claims_held", "Claims that are prepared on this node.", state.claims_held),
            ("records_quarantined", "Damaged claim records that were set aside.", state.quarantined_records),
            ("slices_synced", "Whether the ResourceSlices say what the hardware is.", state.slices_synced),
        ):
            yield GaugeMetricFamily(f"dra_driver_{name}", text, value=float(value))
