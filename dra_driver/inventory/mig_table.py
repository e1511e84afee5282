"""The MIG table of a GPU model: which instances it can be cut into, and where they fit.

Tables are YAML files of their own, since several profiles of nodes share one: those in `profiles/mig`, by name,
or a file beside the user's profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_driver.inventory.document import Value
from dra_driver.inventory.model import ENGINES, MigProfile


@dataclass(frozen=True, slots=True)
class MigTable:
    """All profiles of a board of `slices` memory slices; `unverified` is as in `profile.Profile`."""

    slices: int
    profiles: tuple[MigProfile, ...]
    unverified: Mapping[str, str]

    def profile(self, name: str) -> MigProfile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)


def read_table(document: Value) -> MigTable:
    """The table in `document`; UsageError names the line that is wrong."""
    fields = document.fields(["slices", "profiles"], ["unverified"])
    slices = fields["slices"].integer(1, 64)
    profiles: list[MigProfile] = []
    for item in fields["profiles"].items():
        profile = _read_profile(item, slices)
        for other in profiles:
            if profile.name == other.name or profile.id == other.id:
                item.reject(f"expected a name and an id of its own, found those of {other.name} again")
        profiles.append(profile)
    if not profiles:
        fields["profiles"].fail("at least one profile")
    return MigTable(slices, tuple(profiles), read_unverified(document))


def _read_profile(item: Value, slices: int) -> MigProfile:
    required = [
        "id",
        "name",
        "memoryMiB",
        "computeSlices",
        "multiprocessors",
        "maxInstances",
        "size",
        "placements",
    ]
    fields = item.fields(required, ENGINES)
    size = fields["size"].integer(1, slices)
    if slices % size:
        fields["size"].reject(f"expected a divisor of the board's {slices} slices, found {size}")
    placements = [place.integer(0, slices - size, "a memory slice") for place in fields["placements"].items()]
    if not placements or placements != sorted(set(placements)) or any(start % size for start in placements):
        fields["placements"].reject(f"expected rising multiples of the size {size}")
    return MigProfile(
        id=fields["id"].integer(0, 1023),
        name=fields["name"].text(
            "a name such as 1g.5gb or 1g.5gb+me", r"\d{1,2}g\.\d{1,4}gb([+-][a-z.]{2,10})?"
        ),
        memory_bytes=fields["memoryMiB"].integer(0, 2**24, "a whole number of MiB") << 20,
        compute_slices=fields["computeSlices"].integer(1, slices),
        multiprocessors=fields["multiprocessors"].integer(1, 4096),
        max_instances=fields["maxInstances"].integer(1, slices),
        placements=tuple(placements),
        size=size,
        **{key: fields[name].integer(0, 1024) if name in fields else 0 for name, key in ENGINES.items()},
    )


def read_unverified(document: Value) -> dict[str, str]:
    """The key `unverified`: paths in the document, with why the value there is not confirmed.

    `[*]` stands for all items of a list. A path that is not there is an error, so that no caveat outlives
    the value it was about.
    """
    value = document.mapping().get("unverified")
    if value is None:
        return {}
    paths = {child.path for child in document.walk()}
    paths |= {_star(path) for path in paths}
    for path, reason in value.mapping().items():
        reason.text("why the value is not confirmed", r".{3,300}")
        if path not in paths or not path:
            reason.reject(f"expected the path of a key of this file such as gpus[*].root, found {path!r}")
    return {path: str(reason.content) for path, reason in value.mapping().items()}


def _star(path: str) -> str:
    head, *rest = path.split("[")
    return head + "".join("[*]" + part.partition("]")[2] for part in rest)
