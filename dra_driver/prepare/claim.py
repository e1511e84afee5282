"""What an allocated claim asks of this driver, read from the API object.

Pure functions of the object, so all rules about claims are in one place: only results and configuration of
our driver count (a claim may hold devices of several), a sub-request of `firstAvailable` answers under its
base name, and configuration of a class comes before that of the claim, which overrides it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dra_driver.cdi.names import check_claim_uid
from dra_driver.errors import ClaimError, ConfigError, UnavailableError, one_line
from dra_driver.quantity import Quantity
from dra_driver.resource import names

_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ClaimSource(Protocol):
    """Where ResourceClaims come from."""

    def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        """The claim as resource.k8s.io/v1 has it; `kube.errors.NotFoundError` where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """A device that the scheduler gave the claim."""

    request: str  # "req", or "req/sub"
    pool: str
    device: str
    share_id: str | None
    admin_access: bool
    memory: int | None = None  # bytes that a share consumes, at least 1

    @property
    def base_request(self) -> str:
        return self.request.partition("/")[0]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """Opaque parameters for our driver, and the requests they are for; none means all."""

    path: str  # of the parameters, in the claim
    requests: tuple[str, ...]
    parameters: Any

    def names(self, result: Result) -> bool:
        """Whether the entry is for this result's request by name."""
        return result.request in self.requests or result.base_request in self.requests

    def applies_to(self, result: Result) -> bool:
        return not self.requests or self.names(result)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Our part of a claim's allocation."""

    ref: ClaimRef
    results: tuple[Result, ...]
    configs: tuple[ConfigEntry, ...]  # lowest precedence first
    pod_claim_name: str | None = None  # of a claim that was made from a Pod's template


def check_ref(ref: ClaimRef) -> None:
    """ClaimError where the API server has no claim of such a name: it becomes part of paths, there and here."""
    check_claim_uid(ref.uid)
    for what, name, syntax in (
        ("claim", ref.name, names.subdomain),
        ("namespace", ref.namespace, names.label),
    ):
        if syntax(name):
            raise ClaimError(
                f"{name[:64]!r} cannot be the name of a {what}; delete the Pod that uses the claim"
            )


def read_allocation(claim: Mapping[str, Any], ref: ClaimRef, driver: str) -> Allocation:
    """Our part of `claim`, which was fetched by the name in `ref`; ClaimError where it cannot be prepared.

    UnavailableError where it is no claim at all, but something that came in its place.
    """
    try:
        return _read(claim, ref, driver)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnavailableError(
            f"cannot read claim {ref}: what the API server answered is no ResourceClaim ({one_line(error, 200)})"
        ) from error


def _read(claim: Mapping[str, Any], ref: ClaimRef, driver: str) -> Allocation:
    if claim["metadata"]["uid"] != ref.uid:
        raise ClaimError(
            f"claim {ref} was replaced by a new claim of the same name; delete the Pod that used the old one"
        )
    allocation = (claim.get("status") or {}).get("allocation")
    if not allocation:
        raise ClaimError(f"claim {ref} is not allocated; delete its Pod, so that a new one is scheduled")
    devices = allocation.get("devices") or {}
    results = tuple(
        Result(
            result["request"],
            result["pool"],
            result["device"],
            result.get("shareID") or None,
            bool(result.get("adminAccess")),
            _consumed_memory(result) if result.get("shareID") else None,
        )
        for result in devices.get("results") or ()
        if result["driver"] == driver
    )
    if not results:
        raise ClaimError(f"claim {ref} holds no device of driver {driver}; there is nothing to prepare")
    annotations = claim["metadata"].get("annotations") or {}
    return Allocation(
        ref,
        results,
        _configs(devices.get("config") or (), driver, ref),
        annotations.get(_POD_CLAIM_NAME),
    )


def _consumed_memory(result: Mapping[str, Any]) -> int | None:
    """None where it is nothing: shares without limit have a default of 0."""
    memory = (result.get("consumedCapacity") or {}).get("memory")
    return None if memory is None else Quantity.parse(memory).value or None


def _configs(entries: Any, driver: str, ref: ClaimRef) -> tuple[ConfigEntry, ...]:
    """Entries for our driver, in the API's order: those of the class, then those of the claim."""
    configs = []
    for i, entry in enumerate(entries):
        opaque = entry.get("opaque")
        path = f"claim {ref}: status.allocation.devices.config[{i}]"
        if opaque is None:
            raise ConfigError(f"{path} is not opaque; this driver knows no other configuration")
        if opaque["driver"] == driver:
            where = " (from the DeviceClass)" if entry.get("source") == "FromClass" else ""
            configs.append(
                ConfigEntry(
                    f"{path}.opaque.parameters{where}",
                    tuple(entry.get("requests") or ()),
                    opaque.get("parameters"),
                )
            )
    return tuple(configs)
