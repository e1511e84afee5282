"""What the controller is put together from."""

from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client import CollectorRegistry

from dra_driver.controller.config import ControllerConfig
from dra_driver.controller.flags import Settings
from dra_driver.controller.precedence import Precedence
from dra_driver.kube.client import Client


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every part is given."""

    settings: Settings
    config: ControllerConfig
    client: Client
    registry: CollectorRegistry  # parts add their metrics
    precedence: Precedence = field(default_factory=Precedence)  # of requests over what takes long


class Part(Protocol):
    """One job of the controller, in threads of its own."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Begin; UnavailableError or UsageError where that is not possible, which ends the process."""

    def stop(self) -> None:
        """End all threads, within seconds; also after a `start` that failed."""

    def ready(self) -> None:
        """UnavailableError says what this replica cannot do yet."""
