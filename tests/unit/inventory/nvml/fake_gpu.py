"""Scripted GPUs for the fake NVML: what each answers, which a test may change at any time."""

from dataclasses import dataclass, field

from dra_driver.inventory.model import MigProfile
from dra_driver.inventory.nvml_api import text

# Enum index -> id, slices; the last is for +me, which a plain profile fills as well.
_COMPUTE_PROFILES = {0: (0, 1), 1: (1, 2), 2: (2, 3), 3: (3, 4), 4: (4, 7), 7: (7, 1)}


@dataclass(slots=True)
class FakeLink:
    """An NVLink: `remote_type` 0 GPU, 1 IBM CPU, 2 switch, 255 unknown; None: not supported."""

    remote_type: int | None = 0
    remote_bus_id: str | None = None
    active: bool = True


@dataclass(slots=True)
class FakeFabric:
    """What the fabric info call answers."""

    cluster_uuid: bytes = bytes(16)
    clique_id: int = 0
    state: int = 3  # COMPLETED
    status: int = 0


@dataclass(slots=True)
class FakeProfile:
    """A GPU instance profile; the key it is stored under is the enum index, `id` is the driver's."""

    id: int
    name: str | bytes
    slices: int
    memory_mib: int
    multiprocessors: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    instances: int = 1
    placements: tuple[tuple[int, int], ...] = ()  # start, size

    def as_profile(self) -> MigProfile:
        """The profile as the inventory has it."""
        return MigProfile(
            id=self.id,
            name=text(self.name).removeprefix("MIG "),
            memory_bytes=self.memory_mib << 20,
            compute_slices=self.slices,
            multiprocessors=self.multiprocessors,
            copy_engines=self.copy_engines,
            decoders=self.decoders,
            encoders=self.encoders,
            jpeg_engines=self.jpeg_engines,
            ofa_engines=self.ofa_engines,
            max_instances=self.instances,
            placements=tuple(sorted(start for start, _ in self.placements)),
            size=self.placements[0][1] if self.placements else 0,
        )


@dataclass(slots=True)
class FakeMigDevice:
    """A compute instance in a GPU instance; None in `FakeMig.devices` is a hole."""

    uuid: str
    gpu_instance: int
    profile_id: int
    placement: tuple[int, int]
    compute_instance: int = 0
    compute_slices: int = 1
    gpu_slices: int = 1
    busy: bool = False  # a process uses it
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class FakeGpuInstance:
    """A GPU instance without compute instance."""

    id: int
    profile_id: int
    placement: tuple[int, int]
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class FakeMig:
    """MIG of a capable GPU."""

    current: int = 0
    pending: int = 0
    profiles: dict[int, FakeProfile] = field(default_factory=dict)
    devices: list[FakeMigDevice | None] = field(default_factory=list)
    empty: list[FakeGpuInstance] = field(default_factory=list)
    compute_profiles: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(_COMPUTE_PROFILES))
    resetless: bool | None = True  # None: the driver does not say
    clients: bool = False  # processes that use the GPU, so that its mode cannot be switched
    made: int = 0  # MIG devices so far


@dataclass(slots=True)
class FakeGpu:
    """A scripted GPU, an H100 unless told otherwise. `errors` maps a function's name to an NVML error code."""

    uuid: str | bytes
    bus_id: str
    name: str | bytes = "NVIDIA H100 80GB HBM3"
    minor: int | None = 0
    brand: int | None = 14
    architecture: int | None = 9
    compute_capability: tuple[int, int] | None = (9, 0)
    memory_bytes: int | None = 81559 * 2**20
    cores: int | None = 16896
    addressing_mode: int | None = 1
    serial: str | None = "1650000000001"
    mig: FakeMig | None = field(default_factory=FakeMig)
    links: dict[int, FakeLink] | None = field(default_factory=dict)
    link_count: int = 18
    fabric: FakeFabric | None = field(default_factory=FakeFabric)
    lost: bool = False
    errors: dict[str, int] = field(default_factory=dict)
