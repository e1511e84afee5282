"""Selectors that choose nothing, or everything, and the limit of memory that a card just misses.

They are tried on the devices of the linted slices, else on every known model of GPU. "Never" is said of known models; an
expression that a new model could meet is a warning, not an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from dra_driver.cel.library.quantity import Quantity
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint import catalogue
from dra_driver.lint.comparisons import comparisons, constant, holds
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.devices import FAILURES, Answer, KnownDevice, stranger
from dra_driver.lint.finding import Finding, Rule, Severity
from dra_driver.selectors.comparisons import Comparison
from dra_driver.selectors.reads import Read

NEVER_MATCHES = Rule(
    "never-matches",
    "warning",
    "No known device meets the selectors",
    "The claim would stay pending. The finding names what comes nearest. Where a text is asked for that is not like any "
    "that is known, and no slices are given, it may be a GPU that is not known here, and the finding is for information.",
)
ALWAYS_MATCHES = Rule(
    "always-matches",
    "info",
    "A selector that every known device meets",
    "It chooses nothing. If it is a constant, or asks what the class asks already, it can go.",
)
JUST_MISSED = Rule(
    "just-missed",
    "warning",
    "The limit of memory is just above what a card has",
    "A card has less memory than its name says: an H100 80GB has 81559Mi, which is 79.6Gi, so a selector for 80Gi leaves "
    "it out. Ask for what the program needs, with some room below the name.",
)
RULES = (NEVER_MATCHES, ALWAYS_MATCHES, JUST_MISSED)

_NEAR = 0.07  # an L4 with "24 GB" has 6.3 % less than 24Gi
_MEMORY = Read("capacity", DRIVER_NAME, "memory")
_FEW = 3
_MISSES = frozenset({Answer.NO, Answer.ABSENT})


def check(context: Context) -> Iterator[Finding]:
    for group in _groups(context):
        yield from _check_group(context, group)


def _groups(context: Context) -> Iterable[list[Selection]]:
    """Selections of one request, or of one class."""
    groups: dict[tuple[int, str], list[Selection]] = {}
    for selection in context.selections:
        path = selection.wish.path if selection.wish is not None else ""
        groups.setdefault((id(selection.manifest), path), []).append(selection)
    return groups.values()


def _check_group(context: Context, group: list[Selection]) -> Iterator[Finding]:
    group = [selection for selection in group if selection.expression.selector is not None]
    if not group or not _is_about(context, group):
        return
    devices = group[0].of_class
    answers = {id(s): context.answers(s.expression, devices) for s in group}
    # A selector that fails on every device has an error, which other rules explain; it does not miss.
    if any(all(answer in FAILURES for answer in answers[id(s)]) for s in group if devices):
        return
    dead = [s for s in group if devices and _matches_none(answers[id(s)])]
    for selection in dead:
        yield _never(context, selection, group, devices, alone=True)
    rows = zip(*(answers[id(s)] for s in group), strict=True)
    left = [row for row in rows if not _MISSES.intersection(row)]
    if devices and not dead and not left and len(group) > 1:
        yield _never(context, group[-1], group, devices, alone=False)
    elif not dead:
        for selection in group:
            yield from _check_just_missed(context, selection, group, devices)
    for selection in group:
        yield from _check_always(context, selection, answers[id(selection)])


def _is_about(context: Context, group: list[Selection]) -> bool:
    """Whether the selectors are for devices that are known here: a class may be another driver's."""
    if group[0].wish is not None:
        return True
    domains = {one.read.domain for selection in group for one in selection.expression.readings}
    texts = {text for selection in group for text in selection.expression.constants.values()}
    return not texts or bool({device.driver for device in context.devices} & (domains | texts))


def _matches_none(answers: Sequence[Answer]) -> bool:
    return all(answer in _MISSES for answer in answers)


def _never(
    context: Context, at: Selection, group: list[Selection], devices: Sequence[KnownDevice], *, alone: bool
) -> Finding:
    """No device meets the selector `at`, or, not `alone`, all those of the group together."""
    what = "device of the slices" if context.has_slices else "known model"
    message = f"no {what} meets {'the selector' if alone or len(group) == 1 else 'all selectors'}"
    if len(group) > 1:
        counts = (
            f"selector {position} leaves {_count(context.possible(selection.expression, devices))}"
            for position, selection in enumerate(group)
        )
        message += f": of {_count(devices)}, {', '.join(counts)}"
    found = [c for s in ([at] if alone else group) for c in comparisons(s.expression)]
    hint, near = _nearest(found, devices)
    severity: Severity | None = None if near or context.has_slices else "info"
    return context.finding_in(NEVER_MATCHES, at, f"{message}; {hint}" if hint else message, severity=severity)


def _count(devices: Iterable[KnownDevice]) -> int:
    return sum(device.count for device in devices)


def _nearest(found: list[Comparison], devices: Sequence[KnownDevice]) -> tuple[str, bool]:
    """What comes nearest, and whether that is a sign of a mistake rather than of an unknown GPU."""
    found = sorted(found, key=lambda comparison: comparison.kind == "plain")
    for comparison in found:
        if not any(holds(comparison, device) is not False for device in devices):
            return _alternative(comparison, devices)
    for comparison in found:
        others = [c for c in found if c is not comparison]
        meeting = [d for d in devices if all(_may_hold(c, d) for c in others)]
        if meeting:
            return _alternative(comparison, meeting)
    return "", True


def _may_hold(comparison: Comparison, device: KnownDevice) -> bool:
    """Whether it may hold for a device. One that lacks the value is not near: a GPU, say, where a profile is asked for."""
    known = comparison.read in device.values or comparison.read in device.varying
    return known and holds(comparison, device) is not False


def _alternative(comparison: Comparison, devices: Sequence[KnownDevice]) -> tuple[str, bool]:
    wanted = constant(comparison)
    texts_wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    values: dict[Any, KnownDevice] = {
        value: device
        for device in devices
        if type(value := device.values.get(comparison.read)) is type(texts_wanted[0])
    }
    if not values and any(comparison.read in device.values for device in devices):
        return "", True  # compared with another type than theirs, which has a finding of its own
    if not values:
        return f"none of them has {comparison.read}", True
    if comparison.kind != "plain":
        return _extreme(comparison, values), True
    texts = sorted(values)
    for text in (_plainest(str(text)) for text in texts_wanted):
        folded = {value.lower(): value for value in reversed(texts)}
        inside = [value for value in texts if text.lower() in value.lower()]
        close = inside or [folded[t] for t in get_close_matches(text.lower(), list(folded), 1, 0.7)]
        if close:
            return f'the nearest {comparison.read.name} is "{close[0]}"', True
    if len(texts) <= _FEW * 3:
        return f"{comparison.read.name} is one of {', '.join(texts)}", len(texts) <= _FEW
    return f"{comparison.read.name} is none of the {len(texts)} that are known", False


def _plainest(pattern: str) -> str:
    """A text as it is; of a regular expression, the longest part without special characters."""
    return max(re.split(r"[^\w .:+/-]+|\.[*+?]", pattern), key=len)


def _extreme(comparison: Comparison, values: Mapping[Any, KnownDevice]) -> str:
    """The largest or smallest value there is."""
    smallest = comparison.relation in {"<", "<="}
    ordered = sorted(values, key=lambda value: getattr(value, "nanos", value))
    best = ordered[0 if smallest else -1]
    shown = (
        catalogue.shown_memory(best.nanos) if isinstance(best, Quantity) else ".".join(map(str, best.core))
    )
    which = "smallest" if smallest else "largest"
    return f"the {which} {comparison.read.name} is {shown}, of {values[best].label}"


def _check_just_missed(
    context: Context, selection: Selection, group: list[Selection], devices: Sequence[KnownDevice]
) -> Iterator[Finding]:
    for comparison in comparisons(selection.expression):
        limit = constant(comparison)
        if comparison.read != _MEMORY or not isinstance(limit, Quantity):
            continue
        if comparison.relation not in {">", ">="}:
            continue
        others = [c for s in group for c in comparisons(s.expression) if c.node is not comparison.node]
        missed = {
            device.label: device.values[_MEMORY].nanos
            for device in devices
            if _MEMORY in device.values
            and holds(comparison, device) is False
            and limit.nanos * (1 - _NEAR) <= device.values[_MEMORY].nanos
            and all(holds(other, device) is not False for other in others)
        }
        if missed:
            yield _missed(context, selection, comparison, missed)


def _missed(
    context: Context, selection: Selection, comparison: Comparison, missed: dict[str, int]
) -> Finding:
    shown = [f"{label} with {catalogue.shown_memory(nanos)}" for label, nanos in missed.items()]
    more = f" and {len(shown) - _FEW} more" if len(shown) > _FEW else ""
    message = f"the limit just leaves out {', '.join(shown[:_FEW])}{more}"
    room = min(missed.values()) // 10**9 // 2**30
    fix = f'if they are meant, write quantity("{room}Gi")'
    return context.finding_in(JUST_MISSED, selection, message, at=comparison.node, fix=fix)


def _check_always(context: Context, selection: Selection, answers: Sequence[Answer]) -> Iterator[Finding]:
    if stranger().judge(selection.expression).answer is Answer.YES and not selection.expression.readings:
        message = "the selector is true for every device"
        yield context.finding_in(ALWAYS_MATCHES, selection, message, severity="warning")
    elif selection.wish is not None and answers and all(answer is Answer.YES for answer in answers):
        what = (
            f"all {_count(selection.of_class)} devices of the slices"
            if context.has_slices
            else "every known model"
        )
        message = f"{what} of class {selection.wish.device_class} meet{'' if context.has_slices else 's'} the selector"
        yield context.finding_in(ALWAYS_MATCHES, selection, message)
