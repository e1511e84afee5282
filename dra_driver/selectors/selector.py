"""Compiled selectors, and the rule that an expression must be a yes or no."""

import functools
from dataclasses import dataclass
from typing import Any

from dra_driver.cel import CompileError, Environment, EvaluationError, Program
from dra_driver.cel.cost import estimate
from dra_driver.cel.errors import Issue
from dra_driver.cel.library import KUBERNETES
from dra_driver.cel.types import ANY, BOOL, DYN
from dra_driver.cel.values import type_name
from dra_driver.resource.expressions import TOO_COMPLEX
from dra_driver.resource.limits import (
    MAX_ATTRIBUTE_LENGTH,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_DRIVER_NAME,
    MAX_IDENTIFIER,
    MAX_LABEL,
)
from dra_driver.selectors import includes
from dra_driver.selectors.device import DEVICE, FIELDS, FIELDS_WITH_LISTS, Device

MAX_COST = 1_000_000  # CELSelectorExpressionMaxCost


@functools.cache
def environment(*, lists: bool = False) -> Environment:
    """The environment of selectors: Kubernetes' base libraries and `device`; `lists` as in `device_value`."""
    return Environment(
        variables={"device": DEVICE},
        fields={DEVICE.name: FIELDS_WITH_LISTS if lists else FIELDS},
        libraries=(*KUBERNETES, includes.LIBRARY) if lists else KUBERNETES,
    )


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled selector; threads may share it."""

    expression: str
    program: Program

    def matches(self, device: Device) -> bool:
        """Whether the device is selected; EvaluationError where the expression cannot say."""
        value: Any = self.program.evaluate_ordered((device,))
        if value is True or value is False:
            return bool(value)
        raise EvaluationError(
            f"CEL result of type {type_name(value)} could not be converted to bool: unsupported native conversion"
        )


@functools.lru_cache(maxsize=1024)
def selector(expression: str, *, lists: bool = False) -> Selector:
    """The selector of an expression, compiled once; CompileError where it is refused."""
    program = environment(lists=lists).compile(expression)
    if program.type not in ({BOOL, ANY, DYN} if lists else {BOOL, ANY}):
        message = f"must evaluate to bool or the unknown type, not {program.type}"
        raise CompileError([Issue(1, 1, message)], expression, placed=False)
    return Selector(expression, program)


def compile_selector(expression: str, *, lists: bool = False) -> str | None:
    """Why the API server refuses the expression, in its words; None where it does not.

    Here an expression whose worst cost is over the budget is refused as well; the scheduler would try it.
    """
    try:
        found = selector(expression, lists=lists)
    except CompileError as error:
        return error.server_text()
    return TOO_COMPLEX if estimate(found.program.tree, _sizes) > MAX_COST else None


def _sizes(path: tuple[str, ...]) -> int | None:
    """How long what an expression reads of a device may be, by the limits of ResourceSlices."""
    match path:
        case ("device", "driver"):
            return MAX_DRIVER_NAME
        case ("device", "attributes" | "capacity", "{}"):
            return MAX_LABEL  # a domain
        case ("device", "attributes" | "capacity", _, "{}"):
            return MAX_IDENTIFIER
        case ("device", "attributes" | "capacity") | ("device", "attributes" | "capacity", _):
            return MAX_ATTRIBUTES_AND_CAPACITIES
        case ("device", "attributes", _, _):
            return MAX_ATTRIBUTE_LENGTH
        case ("device",) | ("device", _):
            return 1
        case _:
            return None
