"""From the devices found to the AllocationResult that goes into a claim's status."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from dra_driver.allocation.attempt import Choice
from dra_driver.allocation.nodes import selector_for
from dra_driver.allocation.requests import Claim


def allocation_result(
    claim: Claim,
    choices: Sequence[Choice],
    classes: Mapping[str, Mapping[str, Any]],
    node: Mapping[str, Any],
) -> dict[str, Any]:
    """The AllocationResult of one claim; every share gets a new random id."""
    devices: dict[str, Any] = {"results": [_result(choice) for choice in choices]}
    config = [*_from_classes(claim, choices, classes), *_from_claim(claim, choices)]
    if config:
        devices["config"] = config
    result: dict[str, Any] = {"devices": devices}
    selector = selector_for(map(_selection, choices), node)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _selection(choice: Choice) -> tuple[Mapping[str, Any], bool]:
    spec, device = choice.candidate.part.spec, choice.candidate.device.raw
    return device if spec.get("perDeviceNodeSelection") else spec, bool(device.get("bindsToNode"))


def _result(choice: Choice) -> dict[str, Any]:
    request, device = choice.request, choice.candidate.device
    result: dict[str, Any] = {
        "request": request.full_name,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
    }
    if request.admin_access:
        result["adminAccess"] = True
    if request.tolerations:
        result["tolerations"] = [dict(toleration) for toleration in request.tolerations]
    for name in ("bindingConditions", "bindingFailureConditions"):
        if device.raw.get(name):
            result[name] = list(device.raw[name])
    skipped = choice.candidate.part.spec.get("skipNodeOperations")
    if skipped:
        result["skipNodeOperations"] = list(skipped)
    if device.shareable:
        result["shareID"] = str(uuid.uuid4())
        if choice.consumed:
            result["consumedCapacity"] = {name: str(amount) for name, amount in choice.consumed.items()}
    return result


def _from_classes(
    claim: Claim, choices: Sequence[Choice], classes: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each class's configuration once, for all requests that use the class."""
    users: dict[str, list[str]] = {}
    chosen = {choice.request.full_name for choice in choices}
    for alternatives in claim.requests:
        for request in alternatives:
            if request.full_name in chosen:
                users.setdefault(request.class_name, []).append(request.full_name)
    return [
        {"source": "FromClass", "requests": requests, **entry}
        for name, requests in users.items()
        for entry in (classes[name].get("spec") or {}).get("config") or ()
    ]


def _from_claim(claim: Claim, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """The claim's configuration, without what is for subrequests that were not chosen."""
    # An empty list of requests means all, as in the claim, and is left out, as the API server would.
    names = {name for choice in choices for name in (choice.request.full_name, choice.request.name)}
    return [
        {"source": "FromClaim", **{key: value for key, value in entry.items() if value}}
        for entry in claim.devices.get("config") or ()
        if not entry.get("requests") or names.intersection(entry["requests"])
    ]
