"""How GPU instances stand beside each other on one GPU: the driver's rules, as far as documents and dumps tell them.

An instance starts at one of its profile's places; no memory slice is taken twice; there are no more instances of a profile
than it allows; and all of them together have no more compute slices, multiprocessors and engines than the board, which
is what its largest profile has of each.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dra_driver.inventory.model import ENGINES, MigProfile

_SUMMED = {"computeSlices": "compute_slices", "multiprocessors": "multiprocessors", **ENGINES}


class Place(NamedTuple):
    """A GPU instance: its shape, and its first memory slice."""

    profile: MigProfile
    start: int

    def overlaps(self, other: "Place") -> bool:
        return self.start < other.start + other.profile.size and other.start < self.start + self.profile.size


def misfit(place: Place, taken: Sequence[Place], profiles: Iterable[MigProfile]) -> str | None:
    """Why there can be no instance at `place` beside those in `taken`, on a board that has `profiles`; None: it fits."""
    profile, start = place
    if start not in profile.placements:
        starts = ", ".join(map(str, profile.placements))
        return f"expected {profile.name} to start at one of {starts}, found {start}"
    for other in taken:
        if place.overlaps(other):
            return f"{profile.name} at {start} overlaps with {other.profile.name} at {other.start}"
    if sum(other.profile.id == profile.id for other in taken) >= profile.max_instances:
        return f"expected at most {profile.max_instances} of {profile.name}, found more"
    board = tuple(profiles)
    for name, key in _SUMMED.items():
        most = max(getattr(other, key) for other in board)
        used = sum(getattr(other.profile, key) for other in (place, *taken))
        if used > most:
            return f"expected at most {most} {name} on the board, found {used}"
    return None


def instance_id(profile: MigProfile, start: int, profiles: Iterable[MigProfile]) -> int:
    """The driver's id of an instance there: the board's halves are 1 and 2, their halves 3 to 6, and so on."""
    slices = max(other.size for other in profiles)
    return slices // profile.size - 1 + start // profile.size
