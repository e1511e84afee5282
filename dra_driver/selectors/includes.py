"""`x.includes(v)`, which comes with attributes that are lists: a list has the value, or a single value is it.

So an expression need not know whether a driver publishes one NUMA node of a GPU or several.
"""

from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.declarations import Library, method
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.relations import is_equal
from dra_driver.cel.types import BOOL, DYN
from dra_driver.resource.limits import MAX_ATTRIBUTE_VALUES


def _includes(frame: Frame, held: Any, value: Any) -> bool:
    if type(held) is not list:
        return is_equal(frame, held, value)
    charge(frame, MAX_ATTRIBUTE_VALUES)
    if any(is_equal(frame, item, value) for item in held[:MAX_ATTRIBUTE_VALUES]):
        return True
    if len(held) > MAX_ATTRIBUTE_VALUES:
        raise EvaluationError(
            f"'includes' function cannot be applied to lists longer than {MAX_ATTRIBUTE_VALUES} values",
            name="includes",
        )
    return False


LIBRARY = Library((method("includes", (DYN, DYN), BOOL, _includes, metered=True),))
