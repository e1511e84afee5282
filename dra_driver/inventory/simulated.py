"""The backend that simulates a node from a profile.

It answers as the NVML backend would on such a machine, with GPUs of its own for each node name; what is
wrong with them is said by a file (see `faults`), so that a test or a person in a demo can break a GPU from
another process. Nothing here touches the machine's own hardware.
"""

from dataclasses import replace
from pathlib import Path

from dra_driver.errors import UsageError, one_line
from dra_driver.inventory.faults import Fault, Faults, read_faults
from dra_driver.inventory.model import Gpu, Inventory, Problem
from dra_driver.inventory.profile import Profile


class SimulatedBackend:
    """A `Backend` for the node `node_name` of the kind `profile`; `faults` is the path of its fault file."""

    def __init__(self, profile: Profile, node_name: str, *, faults: Path | None = None) -> None:
        self.name = f"simulated:{profile.name}"
        self._profile = profile
        self._gpus = profile.gpus_on(node_name)
        self._faults_file = faults
        self._faults = Faults()

    def scan(self) -> Inventory:
        problems = self._read_faults()
        if self._faults.nvml:
            return Inventory(
                available=False, problems=(*problems, Problem("NVML is not available (simulated)"))
            )
        gpus: list[Gpu] = []
        for gpu in self._gpus:
            fault = self._faults.of(gpu)
            if fault is Fault.ABSENT:
                continue
            present = replace(gpu, index=len(gpus))
            if fault is Fault.LOST:
                text = f"GPU {gpu.uuid} at {gpu.pci_address} is lost: it does not answer any more (simulated)"
                present = replace(present, fault=text)
                problems.append(Problem(text, gpu.pci_address, gpu.uuid))
            gpus.append(present)
        return Inventory(
            available=True,
            driver_version=self._profile.driver_version,
            cuda_driver_version=self._profile.cuda_driver_version,
            gpus=tuple(gpus),
            problems=tuple(problems),
        )

    def close(self) -> None:
        """Nothing is held."""

    def _read_faults(self) -> list[Problem]:
        if self._faults_file is None:
            return []
        try:
            self._faults = read_faults(self._faults_file)
        except UsageError as error:
            return [Problem(f"the faults to simulate stay as they were: {one_line(error)}")]
        known = {name for gpu in self._gpus for name in (gpu.uuid, gpu.pci_address)}
        return [
            Problem(f"{self._faults_file}: there is no GPU {name} on this node to simulate a fault of")
            for name in self._faults.gpus
            if name not in known
        ]
