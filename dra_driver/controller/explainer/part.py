"""The explainer: one thread that works on the leader, and rests on the others.

Woken by changes, it takes a turn: who waits, why, and what is new of that. After a turn it rests ten times as long as
the turn took, and at least a second: so it costs at most a tenth of a core in the largest and busiest cluster, next to
nothing in one where nothing happens, and in a small one an Event comes within two seconds. What it knows it forgets with
the lead; whoever leads next works it out again, and the Events are the same ones, since their names come from what
they are about.
"""

import threading
import time
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import structlog

from dra_driver.allocation.diagnosis import World
from dra_driver.allocation.diagnosis.world import is_allocated
from dra_driver.controller.cluster import Cluster
from dra_driver.controller.explainer.answers import Answers
from dra_driver.controller.explainer.inspection import Found, Inspection, Patience
from dra_driver.controller.explainer.metrics import UNEXPLAINED, Metrics, Standing
from dra_driver.controller.explainer.ours import Ours
from dra_driver.controller.explainer.pending import subjects
from dra_driver.controller.explainer.speaker import Speaker
from dra_driver.controller.part import Surroundings
from dra_driver.errors import UnavailableError
from dra_driver.kube.events import Recorder, Reference
from dra_driver.kube.leases import Election
from dra_driver.kube.reasons import Reason
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)

log = structlog.get_logger(__name__)

LEASE = "controller"
_BURST, _PER_SECOND = 100, 5.0  # Events
_STOP_SECONDS = 10.0
_WATCHED = (
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    PODS,
    NODES,
)
_VERBS = {"Pod": "scheduled", "ResourceClaim": "allocated"}


@dataclass(frozen=True, slots=True)
class Pace:
    """In seconds, but for `rest`: how much longer than a turn the rest after it is."""

    budget: float = 2.0  # of working out answers in a turn
    least_rest: float = 1.0
    rest: float = 10.0
    inspect_every: float = 30.0
    idle: float = 5.0  # between looks at the clock and at the lead, where nothing changes


class Explainer:
    """A part of the controller."""

    name = "explainer"

    def __init__(
        self,
        surroundings: Surroundings,
        cluster: Cluster,
        *,
        pace: Pace | None = None,
        patience: Patience | None = None,
    ) -> None:
        settings, client = surroundings.settings, surroundings.client
        self._driver_name = settings.driver_name
        self._cluster = cluster
        self._steps = surroundings.precedence.steps
        self._pace = pace or Pace()
        self._recorder = Recorder(
            client,
            component=f"{settings.driver_name}-controller",
            host=settings.identity,
            burst=_BURST,
            per_second=_PER_SECOND,
        )
        self._election = Election(
            client,
            namespace=settings.namespace,
            name=LEASE,
            identity=settings.identity,
            on_elected=cluster.changed.set,
        )
        self._metrics = Metrics(surroundings.registry, lambda: self._election.is_leader)
        self._answers = Answers()
        self._speaker = Speaker(self._recorder, Reason.CLAIM_NOT_SATISFIABLE)
        self._inspection = Inspection(
            client,
            cluster,
            self._recorder,
            self._metrics,
            driver_name=settings.driver_name,
            taint=settings.taint_pools_without_driver,
            patience=patience,
        )
        self._found = Found(0, 0, 0)
        self._pending: Counter[tuple[str, str]] = Counter()
        self._texts: dict[Reference, str] = {}
        self._seen: Hashable = None  # the version of the cluster at the last turn
        self._unanswered = False  # questions were left for the next turn
        self._unsaid = False  # sentences were
        self._inspect_at = 0.0  # by time.monotonic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="explain", daemon=True)

    def start(self) -> None:
        self._recorder.start()
        self._election.start()
        self._thread.start()

    def stop(self) -> None:
        """The lease is given back at once, so that the next replica need not wait for it."""
        self._stop.set()
        self._cluster.changed.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self._election.stop()
        self._recorder.stop()

    def ready(self) -> None:
        """A replica that does not lead is as ready as the leader."""

    def _run(self) -> None:
        while not self._stop.is_set():
            self._cluster.changed.wait(self._pace.idle)
            self._cluster.changed.clear()
            took = 0.0
            if not self._election.is_leader:
                self._step_down()
            elif self._is_synced():
                begin = time.monotonic()
                try:
                    self._turn()
                except Exception:  # whatever an object looks like, the next turn may go well
                    log.exception("turn of the explainer failed")
                took = time.monotonic() - begin
            if self._unanswered or self._unsaid:
                self._cluster.changed.set()
            self._stop.wait(max(self._pace.least_rest, self._pace.rest * took))

    def _is_synced(self) -> bool:
        try:
            self._cluster.ready()
        except UnavailableError:
            return False
        return True

    def _step_down(self) -> None:
        if self._metrics.standing is None:
            return
        self._metrics.standing = None
        self._answers = Answers()
        self._speaker.forget()
        self._inspection.forget()
        self._seen, self._texts = None, {}
        self._unanswered = self._unsaid = False
        self._inspect_at = 0.0

    def _turn(self) -> None:
        version = self._cluster.version(*_WATCHED)
        if version != self._seen or self._unanswered:
            begin = time.monotonic()
            self._unanswered = self._explain()
            self._seen = version
            self._metrics.seconds.observe(time.monotonic() - begin)
        if time.monotonic() >= self._inspect_at:
            self._inspect_at = time.monotonic() + self._pace.inspect_every
            self._found = self._inspection.look(lambda: self._election.is_leader)
        if self._election.is_leader:
            self._unsaid = self._speaker.say(self._texts)
        self._metrics.standing = Standing(
            Counter(self._pending),
            self._found.unreserved,
            self._found.without_driver,
            self._found.published_twice,
        )

    def _explain(self) -> bool:
        """Work out who waits and why; whether answers are left for the next turn."""
        cluster, steps = self._cluster, self._steps
        # First, so that what changes while all is looked at makes the answers due again.
        version = cluster.version(RESOURCE_SLICES, DEVICE_CLASSES, NODES)
        world = World(
            slices=steps(cluster.slices.snapshot()),
            classes=steps(cluster.classes.snapshot()),
            claims=steps(cluster.claims.snapshot()),
            templates=steps(cluster.templates.snapshot()),
            pods=steps(cluster.pods.snapshot()),
            nodes=steps(cluster.nodes.snapshot()),
        )
        waiting = list(subjects(world, Ours(self._driver_name, world.classes)))
        more = self._answers.update(world, (_held(world), version), waiting, self._pace.budget)
        self._pending, self._texts = Counter(), {}
        for subject in waiting:
            found = self._answers.of(subject)
            self._pending[subject.about.kind, UNEXPLAINED if found is None else found.reason] += 1
            if found is not None and found.text:
                self._texts[subject.about] = f"cannot be {_VERBS[subject.about.kind]}: {found.text}"
        return more


def _held(world: World) -> Hashable:
    """The claims that have devices: of the others no answer depends."""
    return frozenset(
        (claim["metadata"]["uid"], claim["metadata"]["resourceVersion"])
        for claim in world.claims
        if is_allocated(claim)
    )
