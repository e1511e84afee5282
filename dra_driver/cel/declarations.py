"""What a function declares: overloads with static types, which both the checker and the dispatcher read.

One table serves both sides: the checker unifies the argument types with it, and at run time, where a value's
type was not known before (`dyn`, `any`), the first overload whose argument types match the values is called.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dra_driver.cel.types import Type


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    For a method, `args` starts with the receiver. A metered implementation takes the frame first and charges it
    for its work itself; others are charged for the size of what they take and return, and `price` where they take
    longer than their size says.
    """

    function: str
    args: tuple[Type, ...]
    result: Type
    implementation: Callable[..., Any]
    member: bool = False
    metered: bool = False
    price: int = 0


def function(
    name: str,
    args: Iterable[Type],
    result: Type,
    implementation: Callable[..., Any],
    *,
    metered: bool = False,
    price: int = 0,
) -> Overload:
    """A global function: name(args)."""
    return Overload(name, tuple(args), result, implementation, metered=metered, price=price)


def method(
    name: str,
    args: Iterable[Type],
    result: Type,
    implementation: Callable[..., Any],
    *,
    metered: bool = False,
    price: int = 0,
) -> Overload:
    """A method: args[0].name(args[1:])."""
    return Overload(name, tuple(args), result, implementation, member=True, metered=metered, price=price)


@dataclass(frozen=True, slots=True)
class Library:
    """Functions, and the types that can be named in expressions."""

    overloads: tuple[Overload, ...]
    types: tuple[Type, ...] = ()
