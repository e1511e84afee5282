"""The webhook's metrics: all names and labels in one place; no label carries a name or a text of a user."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dra_driver.controller.config import Action
from dra_driver.controller.webhook.protocol import Request, Verdict
from dra_driver.controller.webhook.reviewer import RESOURCES, WORKLOADS
from dra_driver.lint import Finding

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_KINDS = RESOURCES | {kind for _, kind in WORKLOADS}


class WebhookMetrics:
    def __init__(self, registry: CollectorRegistry, certificate_expires: Callable[[], float]) -> None:
        """`certificate_expires` gives seconds since 1970, and is asked at each scrape."""
        self._requests = Counter(
            "dra_driver_webhook_requests",
            "Admission requests, by kind and by how they ended.",
            ("kind", "outcome"),
            registry=registry,
        )
        self._findings = Counter(
            "dra_driver_webhook_findings",
            "Findings on what was applied, by the code of the rule and what was done about it.",
            ("rule", "action"),
            registry=registry,
        )
        self._seconds = Histogram(
            "dra_driver_webhook_duration_seconds",
            "Time taken per admission request, without the network.",
            buckets=_SECONDS,
            registry=registry,
        )
        Gauge(
            "dra_driver_webhook_certificate_expiry_timestamp_seconds",
            "When the certificate in use ends, in seconds since 1970; 0 while there is none.",
            registry=registry,
        ).set_function(certificate_expires)

    def observe(
        self, request: Request, verdict: Verdict, findings: list[tuple[Finding, Action]], seconds: float
    ) -> None:
        outcome = "denied" if not verdict.allowed else "warned" if verdict.warnings else "allowed"
        self._requests.labels(request.kind if request.kind in _KINDS else "other", outcome).inc()
        for finding, action in findings:
            self._findings.labels(finding.code, action).inc()
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """A request that got no verdict."""
        self._requests.labels("other", "failed").inc()
