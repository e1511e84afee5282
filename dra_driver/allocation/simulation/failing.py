"""Whether a claim's selectors fail on some device of the cluster.

Where none does, the first node that fits is as good as any. Where one does, the scheduler may come across it on a
node that it did not need.
"""

from collections.abc import Iterator, Sequence

from dra_driver.allocation.diagnosis.world import Object, World
from dra_driver.allocation.explanation.scene import alternatives_of
from dra_driver.allocation.matching import Matcher
from dra_driver.allocation.model import Device
from dra_driver.allocation.needs import usable
from dra_driver.allocation.requests import Claim
from dra_driver.cel import CompileError, EvaluationError


def may_fail(world: World, claim: Object) -> bool:
    """Whether some selector of the claim or of its classes gives an error for a device that it would be asked about."""
    snapshot = world.scene.snapshot
    wishes = list(_expressions(world, claim))
    for node in world.nodes:
        for candidate in usable(snapshot.slices.readable_pools(node)):
            if any(_fails(snapshot.matcher, expressions, candidate.device) for expressions in wishes):
                return True
    return False


def _expressions(world: World, claim: Object) -> Iterator[Sequence[str]]:
    for alternatives in alternatives_of(Claim(claim)):
        for request in alternatives:
            spec = world.scene.snapshot.classes.get(request.class_name, {}).get("spec") or {}
            selectors = (*(spec.get("selectors") or ()), *request.selectors)
            yield [str((one.get("cel") or {}).get("expression") or "") for one in selectors]


def _fails(matcher: Matcher, expressions: Sequence[str], device: Device) -> bool:
    for expression in expressions:
        try:
            answer = matcher.answer(expression, device)
        except CompileError:
            return True
        if isinstance(answer, EvaluationError):
            return True
        if not answer:
            return False
    return False
