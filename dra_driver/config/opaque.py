"""Strict decoding of opaque parameters, of the kinds that manifests for the official driver use.

The one door: Prepare, the webhook and lint all decide here, so what is admitted is prepared. What is accepted is
accepted in full; a field that has no effect is refused with its JSON path, rather than leave a Pod running with less
than it asked for. All mistakes are told at once. A configuration without settings is decoded without loading
pydantic.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_driver import strictjson
from dra_driver.config.settings import Config, GpuConfig, MigDeviceConfig, Sharing
from dra_driver.config.shown import shown
from dra_driver.errors import ConfigError

API_VERSION = "resource.nvidia.com/v1beta1"

_KINDS: Mapping[str, type[GpuConfig | MigDeviceConfig]] = {
    "GpuConfig": GpuConfig,
    "MigDeviceConfig": MigDeviceConfig,
}
_UNSUPPORTED = {
    "VfioDeviceConfig": "GPUs are not passed through to virtual machines",
    "ComputeDomainChannelConfig": "ComputeDomains are not supported",
    "ComputeDomainDaemonConfig": "ComputeDomains are not supported",
}
_EMPTY = frozenset({"apiVersion", "kind", "sharing"})  # what a configuration without settings has
_MAX_PROBLEMS = 8  # in one text, which has to fit into an event


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    path: str  # below the parameters: ".sharing.strategy"; empty for the parameters themselves
    message: str


class InvalidParametersError(ConfigError):
    """Parameters that mean nothing; all that is wrong with them."""

    def __init__(self, path: str, problems: tuple[Problem, ...]) -> None:
        first, *others = problems[:_MAX_PROBLEMS]
        told = [f"{path}{first.path}: {first.message}"]
        told += [f"{other.path}: {other.message}".removeprefix(": ") for other in others]
        more = len(problems) - len(told)
        super().__init__("; ".join(told) + (f"; and {more} more" if more else ""))
        self.problems = problems


def decode(parameters: object, path: str) -> Config:
    """What `parameters`, found at the JSON path `path`, configure; InvalidParametersError names every mistake."""
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"{path} must be an object with apiVersion {API_VERSION} and a kind")
    kind, version = parameters.get("kind"), parameters.get("apiVersion")
    if isinstance(kind, str) and kind in _UNSUPPORTED:
        problem = Problem(".kind", f"{kind} cannot be used with this driver: {_UNSUPPORTED[kind]}")
        raise InvalidParametersError(path, (problem,))
    found = _KINDS.get(kind) if isinstance(kind, str) else None
    problems = []
    if version != API_VERSION:
        problems.append(Problem(".apiVersion", f"expected {API_VERSION}, not {shown(version)}"))
    if found is None:
        problems.append(Problem(".kind", f"expected {' or '.join(_KINDS)}, not {shown(kind)}"))
    problems += [
        Problem(_path(place), f"the field {shown(key)} is given twice")
        for place, key in strictjson.repeated(parameters)
    ]
    sharing: Sharing | None = None
    if found is not None and (parameters.get("sharing") is not None or parameters.keys() - _EMPTY):
        from dra_driver.config import models

        checked = models.check(str(kind), parameters)
        if isinstance(checked, list):
            problems += [
                Problem(_path(place), message) for place, message in checked if place != ("apiVersion",)
            ]
        else:
            sharing = checked
    if found is None or problems:
        raise InvalidParametersError(path, tuple(problems))
    return found(sharing)


def _path(place: tuple[int | str, ...]) -> str:
    return "".join(
        f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{shown(step)}]" for step in place
    )
