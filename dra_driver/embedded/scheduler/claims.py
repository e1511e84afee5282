"""The claims of a Pod, as far as they exist."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_driver.allocation.nodes import matches
from dra_driver.embedded.claims import (
    MAX_RESERVED_FOR,
    Object,
    claim_name,
    is_for,
    is_reserved_for,
    template_status,
)

Lookup = Callable[[str, str], Object | None]  # name, namespace


class NotYetError(Exception):
    """The Pod cannot be looked at before something else happens; the text says what, "" where nobody must know."""


class UnresolvableError(Exception):
    """No node can help: the text is kube-scheduler's reason."""


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims a Pod needs: those with devices already, and those to be allocated, in the order of the Pod."""

    allocated: tuple[Object, ...]
    pending: tuple[Object, ...]

    def available_on(self, node: Object) -> bool:
        """Whether the node can be used with what is allocated already."""
        selectors = (claim["status"]["allocation"].get("nodeSelector") for claim in self.allocated)
        return all(selector is None or matches(selector, node) for selector in selectors)


def of_pod(pod: Object, claim: Lookup, classes: Mapping[str, Object]) -> PodClaims:
    """The Pod's claims; NotYetError or UnresolvableError where it cannot be scheduled with them."""
    found = [one for entry in pod["spec"].get("resourceClaims") or () if (one := _named(pod, entry, claim))]
    for one in found:
        _check(one, pod, classes)
    return PodClaims(
        tuple(one for one in found if is_allocated(one)), tuple(one for one in found if not is_allocated(one))
    )


def is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def _named(pod: Object, entry: Object, claim: Lookup) -> Object | None:
    """The claim of an entry of spec.resourceClaims; None where the Pod turned out to need none."""
    namespace, by_name = pod["metadata"]["namespace"], bool(entry.get("resourceClaimName"))
    if not by_name and template_status(pod, entry) is None:
        raise NotYetError("")  # the claim controller is about to make it, or says in an Event why it cannot
    name = claim_name(pod, entry)
    if name is None:
        return None
    found = claim(name, namespace)
    if found is None:
        raise NotYetError(f'resourceclaim "{name}" not found' if by_name else "")
    if not by_name and not is_for(found, pod):
        owner, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        raise UnresolvableError(
            f"ResourceClaim {namespace}/{name} was not created for pod {namespace}/{owner} (pod is not owner), uid {uid}"
        )
    return found


def _check(claim: Object, pod: Object, classes: Mapping[str, Object]) -> None:
    if claim["metadata"].get("deletionTimestamp"):
        raise UnresolvableError(f'resourceclaim "{claim["metadata"]["name"]}" is being deleted')
    consumers = (claim.get("status") or {}).get("reservedFor") or ()
    if is_allocated(claim):
        if len(consumers) >= MAX_RESERVED_FOR and not is_reserved_for(claim, pod):
            raise UnresolvableError("resourceclaim in use")
        return
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable")
        for one in alternatives or [request.get("exactly") or {}]:
            name = one.get("deviceClassName")
            if name and name not in classes:
                shown = f"{request['name']}/{one['name']}" if alternatives else request["name"]
                raise UnresolvableError(f"request {shown}: device class {name} does not exist")
