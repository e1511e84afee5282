"""A simulated GPU, and a step of a claim on it that can be ended between any two things it does."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from dra_driver.inventory.mig_control import ComputeInstance, GpuInstance, MigControl
from dra_driver.inventory.model import Gpu, MigProfile
from dra_driver.inventory.profile import load_profile
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.partitions.mig_device import MakeMigDevice, MigDevices
from dra_driver.steps import NOTHING, OtherStep


class KilledError(BaseException):
    """The process ends here."""


class Events:
    """Counts what happens, and ends the process before or after the one with that number."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.kill_at: int | None = None
        self.after = False
        self.errors: dict[str, Exception] = {}  # by event

    def do(self, name: str, action: Callable[[], Any]) -> Any:
        self.names.append(name)
        is_here = len(self.names) - 1 == self.kill_at
        if is_here and not self.after:
            raise KilledError
        if name in self.errors:
            raise self.errors[name]
        answer = action()
        if is_here:
            raise KilledError
        return answer


class Watched:
    """`MigControl` whose changes are events."""

    def __init__(self, control: MigControl, events: Events) -> None:
        self._control, self._events = control, events

    def instances(self, gpu_uuid: str) -> tuple[GpuInstance, ...]:
        return self._control.instances(gpu_uuid)

    def mode(self, gpu_uuid: str) -> bool:
        return self._control.mode(gpu_uuid)

    def set_mode(self, gpu_uuid: str, *, enabled: bool) -> None:
        self._events.do(f"mode {enabled}", lambda: self._control.set_mode(gpu_uuid, enabled=enabled))

    def create_gpu_instance(self, gpu_uuid: str, profile_id: int, start: int) -> int:
        call = self._control.create_gpu_instance
        number: int = self._events.do("create gi", lambda: call(gpu_uuid, profile_id, start))
        return number

    def create_compute_instance(self, gpu_uuid: str, gpu_instance: int) -> ComputeInstance:
        call = self._control.create_compute_instance
        made: ComputeInstance = self._events.do("create ci", lambda: call(gpu_uuid, gpu_instance))
        return made

    def destroy_compute_instance(self, gpu_uuid: str, gpu_instance: int, compute_instance: int) -> None:
        call = self._control.destroy_compute_instance
        self._events.do("destroy ci", lambda: call(gpu_uuid, gpu_instance, compute_instance))

    def destroy_gpu_instance(self, gpu_uuid: str, gpu_instance: int) -> None:
        call = self._control.destroy_gpu_instance
        self._events.do("destroy gi", lambda: call(gpu_uuid, gpu_instance))


class Node:
    def __init__(self) -> None:
        self.backend = SimulatedBackend(load_profile("dgx-h100"), "node-1")
        self.gpu: Gpu = self.backend.scan().gpus[0]
        self.events = Events()
        self.control = Watched(self.backend.mig, self.events)
        self.looks: list[bool] = []  # whether MIG mode was on at each look
        self.saved: dict[str, dict[str, Any]] = {}  # what each claim's step saved last
        self.restart()

    def restart(self, *, destroy_unowned: bool = False, managed: bool = True) -> None:
        gpus = {self.gpu.uuid: destroy_unowned} if managed else {}
        self.devices = MigDevices(self.control, lambda: gpus, self._look)

    def _look(self) -> None:
        self.looks.append(self.backend.mig.mode(self.gpu.uuid))

    def profile(self, name: str) -> MigProfile:
        assert self.gpu.mig is not None
        return next(profile for profile in self.gpu.mig.profiles if profile.name == name)

    def instances(self) -> list[tuple[int, int, int]]:
        """Profile, start and number of compute instances of what exists."""
        found = self.backend.mig.instances(self.gpu.uuid)
        return [(each.profile_id, each.placement, len(each.compute_instances)) for each in found]

    def others(self, claim: str) -> list[OtherStep]:
        return [OtherStep(name, state) for name, state in self.saved.items() if name != claim]

    def make(self, claim: str, name: str = "1g.10gb", start: int = 0) -> dict[str, Any]:
        step = MakeMigDevice(self.devices, f"dev-{name}-{start}", self.gpu.uuid, self.profile(name), start)
        assert (step.kind, step.locks) == ("mig-device", (self.gpu.uuid,))

        def save(state: Mapping[str, Any]) -> None:
            self.events.do("save", lambda: self.saved.__setitem__(claim, dict(state)))

        step.do(save, self.others(claim), NOTHING)
        return self.saved[claim]

    def undo(self, claim: str) -> None:
        if claim in self.saved:
            self.devices.undo(self.saved[claim], self.others(claim))
            del self.saved[claim]

    def cut(self, profile_id: int, start: int, *, fill: bool = True) -> None:
        """As an admin does, with nvidia-smi."""
        self.backend.mig.set_mode(self.gpu.uuid, enabled=True)
        number = self.backend.mig.create_gpu_instance(self.gpu.uuid, profile_id, start)
        if fill:
            self.backend.mig.create_compute_instance(self.gpu.uuid, number)

    def recorded(self) -> Sequence[OtherStep]:
        return self.others("")


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def killed() -> type[BaseException]:
    return KilledError
