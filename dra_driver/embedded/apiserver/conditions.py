"""The CEL environment of a webhook's match conditions: `object`, `oldObject` and `request`, untyped.

`authorizer` is not there: nobody is authorized by anything in this server.
"""

import functools

from dra_driver.cel import CompileError, Environment
from dra_driver.cel.library import KUBERNETES
from dra_driver.cel.types import BOOL, DYN


@functools.cache
def environment() -> Environment:
    return Environment(variables={"object": DYN, "oldObject": DYN, "request": DYN}, libraries=KUBERNETES)


def refusal(expression: str) -> str | None:
    """Why the API server refuses a condition; None where it does not."""
    try:
        program = environment().compile(expression)
    except CompileError as error:
        return error.server_text()
    return None if program.type == BOOL or program.type.is_dynamic else "must evaluate to bool"
