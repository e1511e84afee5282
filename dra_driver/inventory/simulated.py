"""The backend that simulates a node from a profile.

It answers as the NVML backend would on such a machine, with GPUs of its own for each node name; what is
wrong with them is said by a file (see `faults`), so that a test or a person in a demo can break a GPU from
another process. Nothing here touches the machine's own hardware.
"""

from dataclasses import replace
from pathlib import Path

import dra_driver.files
from dra_driver.errors import UnavailableError, UsageError, one_line
from dra_driver.files import Files
from dra_driver.inventory.faults import Fault, Faults, faults_file, read_faults
from dra_driver.inventory.model import Gpu, Inventory, Problem
from dra_driver.inventory.profile import Profile
from dra_driver.inventory.simulated_mig import SimulatedMig


class SimulatedBackend:
    """A `Backend` for the node `node_name` of the kind `profile`.

    `driver_root` is where its driver root was made: faults and MIG state are kept there. Without it nothing goes
    wrong, and how GPUs are cut is forgotten with the object. MIG state is written through `files`, so that a test can
    end the process there.
    """

    def __init__(
        self,
        profile: Profile,
        node_name: str,
        *,
        driver_root: Path | None = None,
        files: Files = dra_driver.files,
    ) -> None:
        self.name = f"simulated:{profile.name}"
        self._profile = profile
        self._gpus = profile.gpus_on(node_name)
        self._faults_file = None if driver_root is None else faults_file(driver_root)
        self._faults = Faults()
        self.mig = SimulatedMig(self._gpus, self._current_faults, driver_root, files)

    def scan(self) -> Inventory:
        problems = self._read_faults()
        if self._faults.nvml:
            return Inventory(
                available=False, problems=(*problems, Problem("NVML is not available (simulated)"))
            )
        gpus: list[Gpu] = []
        for gpu in self._gpus:
            fault = self._faults.gpus.of(gpu)
            if fault is not None:
                self.mig.reset(gpu)
            if fault is Fault.ABSENT:
                continue
            text: str | None = None
            if fault is Fault.LOST:
                text = f"GPU {gpu.uuid} at {gpu.pci_address} is lost: it does not answer any more (simulated)"
            try:
                present = self.mig.now(gpu, self._faults.mig.of(gpu))
            except UnavailableError as error:
                present, text = gpu, text or str(error)
            if text is not None:
                problems.append(Problem(text, gpu.pci_address, gpu.uuid))
            gpus.append(replace(present, index=len(gpus), fault=text))
        return Inventory(
            available=True,
            driver_version=self._profile.driver_version,
            cuda_driver_version=self._profile.cuda_driver_version,
            gpus=tuple(gpus),
            problems=tuple(problems),
        )

    def close(self) -> None:
        """Nothing is held."""

    def _current_faults(self) -> Faults:
        self._read_faults()  # what is wrong with the file is told by the next scan
        return self._faults

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
            for name in self._faults.named()
            if name not in known
        ]
