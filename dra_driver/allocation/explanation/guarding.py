"""Guards for the selectors that fail, as changes: of the claim where it is the claim's, else of the class."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_driver.allocation.explanation.edits import Edit
from dra_driver.allocation.explanation.failures import guard
from dra_driver.allocation.explanation.model import Kind, NodeReport
from dra_driver.allocation.explanation.scene import Scene, alternatives_of
from dra_driver.allocation.model import Device, DeviceId
from dra_driver.allocation.requests import Claim
from dra_driver.cel import CompileError, EvaluationError

Object = Mapping[str, Any]


def guards(
    scene: Scene, claims: Sequence[Object], groups: Sequence[NodeReport], devices: Mapping[DeviceId, Device]
) -> Iterator[Edit]:
    """A change for each selector that fails somewhere, so that it does not fail on any device it was seen to."""
    failing = _failing(groups)
    for number, raw in enumerate(claims):
        claim = Claim(raw)
        for alternatives in alternatives_of(claim):
            for request in alternatives:
                seen = [
                    devices[one] for one in failing.get((claim.name, request.full_name), ()) if one in devices
                ]
                for index, selector in enumerate(request.selectors):
                    expression = selector["cel"]["expression"]
                    other = _guarded(scene, expression, seen)
                    if other is not None:
                        mend = _replaced(expression, other)
                        text = f"request {request.full_name}: guard selector {index}"
                        yield Edit(other, text, mend, number, "", request.full_name, expression, other)
                device_class = scene.snapshot.classes.get(request.class_name, {})
                for index, selector in enumerate((device_class.get("spec") or {}).get("selectors") or ()):
                    expression = selector["cel"]["expression"]
                    other = _guarded(scene, expression, seen)
                    if other is not None:
                        text = f"class {request.class_name}: guard selector {index}"
                        mend = _replaced(expression, other)
                        yield Edit(other, text, mend, None, request.class_name, None, expression, other)


def _failing(groups: Sequence[NodeReport]) -> dict[tuple[str, str], list[DeviceId]]:
    found: dict[tuple[str, str], list[DeviceId]] = {}
    for group in groups:
        for request in group.requests:
            for device in request.devices:
                if any(blocker.kind is Kind.ERROR for blocker in device.blockers):
                    found.setdefault((request.claim, request.request), []).append(device.device)
    return found


def _guarded(scene: Scene, expression: str, devices: Sequence[Device]) -> str | None:
    """The expression with guards for all that these devices lack; None where none fails, or guards do not help."""
    guarded = expression
    for device in devices:

        def evaluate(other: str, device: Device = device) -> bool | EvaluationError:
            return scene.snapshot.matcher.answer(other, device)

        try:
            if isinstance(evaluate(guarded), EvaluationError):
                better = guard(guarded, device.id.driver, device.raw, evaluate)
                if better is None:
                    return None
                guarded = better
        except CompileError:
            return None
    return None if guarded == expression else guarded


def _replaced(expression: str, other: str) -> Any:
    def mend(obj: dict[str, Any]) -> None:
        _replace(obj["spec"], expression, other)

    return mend


def _replace(node: Any, expression: str, other: str) -> None:
    """Put another expression in the place of one, wherever a selector has it."""
    if isinstance(node, list):
        for item in node:
            _replace(item, expression, other)
    elif isinstance(node, dict):
        if node.get("expression") == expression:
            node["expression"] = other
        for item in node.values():
            _replace(item, expression, other)
