"""The one sentence that an explanation comes down to."""

from collections.abc import Sequence

from dra_driver.allocation.explanation import Explanation


def verdict(verb: str, explanation: Explanation) -> str:
    """'can be scheduled, on n1', 'cannot be allocated: ...'"""
    if explanation.satisfiable:
        return f"can be {verb}, on {some(explanation.fitting)}"
    if not explanation.nodes:
        return f"cannot be {verb}: there are no nodes"
    if explanation.error:
        return f"cannot be {verb}: the scheduler gives up, as an error on one node is one for all"
    return f"cannot be {verb}: no node has what it asks for"


def some(names: Sequence[str]) -> str:
    """The first names, and how many there are more."""
    return f"{', '.join(names[:3])} and {len(names) - 3} more nodes" if len(names) > 3 else ", ".join(names)
