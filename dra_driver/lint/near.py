"""The name that was meant by one that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_MAX_NAMES = 200  # that are compared: thousands of mistakes among thousands of names shall not take minutes


def near(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of the known names that is written most alike; `cutoff` is how much alike it has to be, up to 1."""
    found = get_close_matches(name, list(islice(known, _MAX_NAMES)), 1, cutoff)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The same as a question; None where no name is alike."""
    found = near(name, known, cutoff)
    return None if found is None else f"did you mean {found}?"
