"""Which devices a request selects: selectors of its class, then its own, then the device's nodes.

An expression is evaluated once for all devices that are equal in what it reads, for as long as the snapshot lives,
however many nodes, requests and claims ask.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from dra_driver.allocation.errors import AllocationError
from dra_driver.allocation.model import Device, DeviceId, Slice
from dra_driver.allocation.nodes import selects
from dra_driver.allocation.requests import Request
from dra_driver.cel import CompileError, EvaluationError
from dra_driver.selectors import Device as DeviceValue
from dra_driver.selectors import device_value, selector
from dra_driver.selectors.reads import content, projected, reads


class Matcher:
    """Answers of expressions about devices, remembered."""

    def __init__(self, *, lists: bool = False) -> None:
        """`lists`: whether attributes may be lists of values."""
        self.lists = lists
        self._answers: dict[tuple[str, DeviceId], bool | EvaluationError] = {}
        self._by_content: dict[tuple[str, Hashable], bool | EvaluationError] = {}

    def selectable(
        self,
        claim: str,
        request: Request,
        device_class: Mapping[str, Any],
        part: Slice,
        device: Device,
        node: Mapping[str, Any],
    ) -> bool:
        """Whether the request may get the device on the node; AllocationError where a selector fails."""
        of_class = (device_class.get("spec") or {}).get("selectors") or ()
        name = device_class["metadata"]["name"]
        return (
            self._all(f"class {name}", of_class, device)
            and self._all(f"claim {claim}", request.selectors, device)
            and (not part.spec.get("perDeviceNodeSelection") or selects(device.raw, node))
        )

    def _all(self, owner: str, selectors: Sequence[Mapping[str, Any]], device: Device) -> bool:
        return all(
            self._one(f"{owner}: selector #{index}", one, device) for index, one in enumerate(selectors)
        )

    def _one(self, owner: str, entry: Mapping[str, Any], device: Device) -> bool:
        expression = (entry.get("cel") or {}).get("expression")
        if expression is None:
            raise AllocationError(f"{owner}: CEL expression empty (unsupported selector type?)")
        try:
            answer = self.answer(expression, device)
        except CompileError as error:
            raise AllocationError(f"{owner}: CEL compile error: {error}") from error
        if isinstance(answer, EvaluationError):
            raise AllocationError(f"{owner}: CEL runtime error: {answer}") from answer
        return answer

    def answer(self, expression: str, device: Device) -> bool | EvaluationError:
        """What the expression says of the device; CompileError where it says nothing of any."""
        answer = self._answers.get((expression, device.id))
        if answer is None:
            answer = self._answers[expression, device.id] = self._evaluated(expression, device)
        return answer

    def _evaluated(self, expression: str, device: Device) -> bool | EvaluationError:
        driver, raw = device.id.driver, device.raw
        wanted = reads(expression, lists=self.lists) if device.readable else None
        if wanted is None:
            return self._evaluate(expression, lambda: self._value(device))
        key = expression, content(wanted, driver, raw)
        answer = self._by_content.get(key)
        if answer is None:
            answer = self._evaluate(expression, lambda: device_value(driver, projected(wanted, driver, raw)))
            self._by_content[key] = answer
        return answer

    def _value(self, device: Device) -> DeviceValue:
        return device_value(device.id.driver, device.raw, lists=True) if self.lists else device.value

    def _evaluate(self, expression: str, value: Callable[[], DeviceValue]) -> bool | EvaluationError:
        try:
            return selector(expression, lists=self.lists).matches(value())
        except EvaluationError as error:
            return error.with_traceback(None)  # it is kept: without the frames it came through
