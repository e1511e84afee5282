"""What keeps devices from a claim only together: constraints, and requests that want the same devices.

Said only where every device was judged by itself: a constraint over devices that no selector takes is no news.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dra_driver.allocation.constraints import applies
from dra_driver.allocation.explanation.model import Blocker, DeviceReport, Kind, RequestReport
from dra_driver.allocation.explanation.wording import plain
from dra_driver.allocation.model import Device, DeviceId
from dra_driver.allocation.requests import Claim

_STANDARD = "resource.kubernetes.io/"
_MAX_NAMES = 3
Devices = Mapping[DeviceId, Device]


def constrained(
    claim: Claim, requests: Sequence[RequestReport], devices: Devices
) -> tuple[list[RequestReport], list[str]]:
    """The reports of a claim's requests with what its constraints have against devices, and what is to be noted."""
    reports, notes = list(requests), []
    for entry in claim.devices.get("constraints") or ():
        match = entry.get("matchAttribute")
        name = match or entry.get("distinctAttribute") or ""
        scope = frozenset(entry.get("requests") or ())
        covered = [index for index, one in enumerate(reports) if applies(scope, *_names(one))]
        for index in covered:
            reports[index] = _without_attribute(reports[index], name, devices)
        lacking = [reports[index].request for index in covered if _lacks(reports[index], name)]
        if lacking:
            shared = _common([reports[index] for index in covered], devices)
            hint = f"; all devices of its requests have {', '.join(shared)}" if shared else ""
            notes.append(f"no device for request {', '.join(lacking)} has the attribute {name}{hint}")
        elif match:
            notes += _match(match, covered, reports, devices)
        else:
            notes += _distinct(name, covered, reports, devices)
    return reports, notes


def _names(report: RequestReport) -> tuple[str, str | None]:
    name, slash, sub = report.request.partition("/")
    return name, sub if slash else None


def _lacks(report: RequestReport, name: str) -> bool:
    return bool(report.devices) and not report.free and any(_is_absence(one, name) for one in report.devices)


def _is_absence(report: DeviceReport, name: str) -> bool:
    return any(one.kind is Kind.CONSTRAINT and one.text == _absence(name) for one in report.blockers)


def _absence(name: str) -> str:
    return f"it has no attribute {name}, which a constraint compares"


def _without_attribute(report: RequestReport, name: str, devices: Devices) -> RequestReport:
    found = [
        _blocked(one, _absence(name))
        if not one.blockers and devices[one.device].attribute(name) is None
        else one
        for one in report.devices
    ]
    return replace(report, devices=tuple(found))


def _blocked(report: DeviceReport, text: str) -> DeviceReport:
    return replace(report, blockers=(*report.blockers, Blocker(Kind.CONSTRAINT, text)))


def _match(name: str, covered: list[int], reports: list[RequestReport], devices: Devices) -> Iterator[str]:
    """Mark the devices that do not have the value which most of what is wanted can have."""
    chosen = [reports[index] for index in covered if reports[index].wanted is not None]
    by_value = [
        Counter(value for one in report.free for value in _values(devices[one.device], name))
        for report in chosen
    ]
    values = {value for counts in by_value for value in counts}
    if not values:
        return

    def served(value: str) -> int:
        return sum(
            min(report.wanted or 0, counts[value]) for report, counts in zip(chosen, by_value, strict=True)
        )

    best = max(sorted(values), key=served)
    wanted = sum(report.wanted or 0 for report in chosen)
    if served(best) >= wanted or len(values) == 1:
        return
    for index in covered:
        free = {one.device for one in reports[index].free}
        found = [
            _blocked(one, f"constraint: {name} is {', '.join(seen)}, not {best} as of the others")
            if one.device in free and best not in (seen := _values(devices[one.device], name))
            else one
            for one in reports[index].devices
        ]
        reports[index] = replace(reports[index], devices=tuple(found))
    yield (
        f"matchAttribute {name}: {_some(wanted)} wanted with one value, and no value is shared by more than"
        f" {served(best)} ({best})"
    )


def _distinct(name: str, covered: list[int], reports: list[RequestReport], devices: Devices) -> Iterator[str]:
    chosen = [reports[index] for index in covered]
    values = {
        value for report in chosen for one in report.free for value in _values(devices[one.device], name)
    }
    wanted = sum(report.wanted or 0 for report in chosen)
    if values and len(values) < wanted:
        yield (
            f"distinctAttribute {name}: {_some(wanted)} wanted with different values, and there"
            f" {'is only 1 value' if len(values) == 1 else f'are only {len(values)} values'}"
        )


def _some(number: int) -> str:
    return f"{number} devices are"


def _values(device: Device, name: str) -> tuple[str, ...]:
    """The values of an attribute in words: one, or those of its list."""
    found = device.attribute(name)
    if found is None:
        return ("missing",)
    return tuple(map(plain, found[1] if isinstance(found[1], list) else [found[1]]))


def _common(reports: list[RequestReport], devices: Devices) -> list[str]:
    """Attributes that all devices have which the requests could take, but for the constraint."""
    names: set[str] | None = None
    for report in reports:
        for one in report.devices:
            if all(blocker.kind is Kind.CONSTRAINT for blocker in one.blockers):
                device = devices[one.device]
                here = {_qualified(name, device) for name in device.raw.get("attributes") or {}}
                names = here if names is None else names & here
    return sorted(names or (), key=lambda name: (not name.startswith(_STANDARD), name))[:_MAX_NAMES]


def _qualified(name: str, device: Device) -> str:
    return name if "/" in name else f"{device.id.driver}/{name}"


def competing(claims: Sequence[Claim], reports: Sequence[RequestReport]) -> str | None:
    """Where every request finds enough devices by itself: that they are not enough for all."""
    exact: list[Any] = [
        one for one in reports if one.wanted is not None and not one.admin_access and "/" not in one.request
    ]
    wanted = sum(report.wanted for report in exact)
    union = {device.device for report in exact for device in report.free}
    names = ", ".join(
        f"{report.claim}/{report.request}" if len(claims) > 1 else report.request for report in exact
    )
    if len(exact) > 1 and len(union) < wanted:
        return (
            f"requests {names} want {wanted} devices together, and only {len(union)} would do for any of them"
        )
    return None
