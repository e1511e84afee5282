"""The leader's round: findings that last are told, and pools without a driver are tainted where that is wanted.

The node plugin marks its own devices when it knows better; this is for when there is no plugin to do so. A rule is
written only by the flag --taint-pools-without-driver, since it takes capacity away; without it the Event holds the rule
for an admin to apply. Rules that were written here are deleted here once the driver is back.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from dra_driver.controller.cluster import Cluster
from dra_driver.controller.explainer import findings
from dra_driver.controller.explainer.metrics import Metrics
from dra_driver.controller.explainer.speaker import Speaker
from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.client import Client
from dra_driver.kube.errors import AlreadyExistsError, NotFoundError
from dra_driver.kube.events import Recorder, Reference
from dra_driver.kube.reasons import Reason
from dra_driver.kube.resources import DEVICE_TAINT_RULES

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long each finding has to last before it is one, in seconds."""

    unreserved: float = 600.0
    without_driver: float = 120.0  # a rolling update restarts a plugin in seconds, an image pull takes longer
    published_twice: float = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """How many of each there are."""

    unreserved: int
    without_driver: int
    published_twice: int


class Inspection:
    """Looks at the cluster whenever it is told to; for one thread."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        metrics: Metrics,
        *,
        driver_name: str,
        taint: bool,
        patience: Patience | None = None,
    ) -> None:
        patience = patience or Patience()
        self._client = client
        self._cluster = cluster
        self._metrics = metrics
        self._driver_name = driver_name
        self._taint = taint
        self._unreserved: findings.Lasting[Reference] = findings.Lasting(patience.unreserved)
        self._without_driver: findings.Lasting[tuple[str, str]] = findings.Lasting(patience.without_driver)
        self._twice: findings.Lasting[Reference] = findings.Lasting(patience.published_twice)
        self._speakers = {
            reason: Speaker(recorder, reason)
            for reason in (Reason.CLAIM_NOT_RESERVED, Reason.DRIVER_NOT_RUNNING, Reason.DRIVER_CONFLICT)
        }

    def look(self, may_write: Callable[[], bool]) -> Found:
        """One round; `may_write` is asked before each write to the cluster."""
        now = time.monotonic()
        cluster, driver = self._cluster, self._driver_name
        slices, nodes = cluster.slices.snapshot(), cluster.nodes.snapshot()
        claims = findings.unreserved(cluster.claims.snapshot(), driver)
        claims = _only(claims, self._unreserved.of(claims, now))
        twice = findings.published_twice(slices, nodes, driver)
        twice = _only(twice, self._twice.of(twice, now))
        by_name = {str(node["metadata"]["name"]): node for node in nodes}
        dead = findings.pools_without_driver(slices, by_name, cluster.plugins.snapshot(), driver)
        gone = {key: dead[key] for key in self._without_driver.of(dead, now)}
        rules = {pool: findings.taint_rule(driver, pool) for _, pool in gone}
        if self._taint:
            self._keep_rules(rules, may_write)
        told = {}
        for (node, pool), why in gone.items():
            about = Reference.to(by_name[node]) if node in by_name else Reference("v1", "Node", node)
            told[about] = f"{why}, yet pool {pool} is offered; {self._said_of(rules[pool])}"
        for reason, texts in (
            (Reason.CLAIM_NOT_RESERVED, claims),
            (Reason.DRIVER_NOT_RUNNING, told),
            (Reason.DRIVER_CONFLICT, twice),
        ):
            self._speakers[reason].say(texts)
        return Found(len(claims), len(gone), len(twice))

    def forget(self) -> None:
        """Another replica looks and speaks meanwhile."""
        for lasting in (self._unreserved, self._without_driver, self._twice):
            lasting.forget()
        for speaker in self._speakers.values():
            speaker.forget()

    def _said_of(self, rule: Mapping[str, object]) -> str:
        if self._taint:
            return "its devices are tainted until a plugin is ready"
        return f"to keep Pods off, apply {json.dumps(rule, separators=(',', ':'))}"

    def _keep_rules(self, wanted: Mapping[str, Mapping[str, object]], may_write: Callable[[], bool]) -> None:
        """Write the rules that are missing, and delete those of pools whose driver is back."""
        try:
            there = {
                rule["metadata"]["name"]: rule
                for rule in self._client.list(DEVICE_TAINT_RULES)["items"]
                if findings.is_ours(rule, self._driver_name)
            }
            for rule in wanted.values():
                name = rule["metadata"]["name"]  # type: ignore[index]
                if there.pop(name, None) is None and may_write():
                    self._client.create(DEVICE_TAINT_RULES, rule)
                    self._metrics.taint_rules.labels("created").inc()
                    log.warning("pool tainted, since no driver stands behind it", rule=name)
            for name, rule in there.items():
                if may_write():
                    self._client.delete(DEVICE_TAINT_RULES, name, uid=rule["metadata"]["uid"])
                    self._metrics.taint_rules.labels("deleted").inc()
                    log.info("pool no longer tainted, its driver is back", rule=name)
        except (AlreadyExistsError, NotFoundError) as error:
            # Somebody was faster; or the server has no DeviceTaintRules in v1, which came with Kubernetes 1.37.
            log.warning("taint rules not kept", err=one_line(error))
        except (ApiError, UnavailableError) as error:
            log.warning("taint rules not kept, trying again", err=one_line(error))


def _only(found: Mapping[Reference, str], keys: set[Reference]) -> dict[Reference, str]:
    return {key: text for key, text in found.items() if key in keys}
