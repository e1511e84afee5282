"""Names in selectors: domains, attributes and capacities that no device has, or that are something else.

Reading such a name is an error on every device unless it is guarded, and then it is only ever absent; both are hardly
what the author meant.
"""

from collections.abc import Iterable, Iterator

from dra_driver.cel import ast
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint import catalogue
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.expressions import Reading
from dra_driver.lint.finding import Edit, Finding, Rule, Severity
from dra_driver.selectors.reads import Read

UNKNOWN_DOMAIN = Rule(
    "unknown-domain",
    "error",
    "A selector reads a domain that no device has",
    "An unknown domain is an empty map, so reading a name in it is an error that keeps the Pod from being "
    "scheduled. The domain is the driver's name, or `resource.kubernetes.io` for standard attributes.",
)
UNKNOWN_ATTRIBUTE = Rule(
    "unknown-attribute",
    "error",
    "An attribute that no device has",
    "Reading a name that a device lacks is an error at run time: the API server accepts the claim, and the scheduler "
    "gives up on every node.",
)
UNKNOWN_CAPACITY = Rule(
    "unknown-capacity",
    "error",
    "A capacity that no device has",
    "In a selector it is an error at run time. In `capacity.requests` a device without it is passed over without a "
    "word; names there are compared letter for letter, and ours have no domain.",
)
CAPACITY_AS_ATTRIBUTE = Rule(
    "capacity-as-attribute",
    "error",
    "A capacity is read as an attribute",
    "Memory and the like are capacities: quantities under `device.capacity`. Under `device.attributes` there is no such "
    "name, which is an error at run time.",
)
ATTRIBUTE_AS_CAPACITY = Rule(
    "attribute-as-capacity",
    "error",
    "An attribute is read as a capacity",
    "Under `device.capacity` are amounts only. A name that is an attribute is missing there, which is an error at run time.",
)
CLASS_LACKS_ATTRIBUTE = Rule(
    "class-lacks-attribute",
    "error",
    "No device of the class has the attribute",
    "Whole GPUs and MIG devices carry different attributes. One that belongs to the other kind is missing on every "
    "device of the class, which is an error at run time.",
)
RULES = (
    UNKNOWN_DOMAIN,
    UNKNOWN_ATTRIBUTE,
    UNKNOWN_CAPACITY,
    CAPACITY_AS_ATTRIBUTE,
    ATTRIBUTE_AS_CAPACITY,
    CLASS_LACKS_ATTRIBUTE,
)
_MISPLACED = {"attributes": CAPACITY_AS_ATTRIBUTE, "capacity": ATTRIBUTE_AS_CAPACITY}
_UNKNOWN = {"attributes": UNKNOWN_ATTRIBUTE, "capacity": UNKNOWN_CAPACITY}
_WORD = {"attributes": "attribute", "capacity": "capacity"}


def check(context: Context) -> Iterator[Finding]:
    for selection in context.selections:
        for reading in _once(selection.expression.readings):
            yield from _check_reading(context, selection, reading)
    for claim in context.claims:
        for wish in claim.wishes:
            members = context.candidates(wish.device_class)
            for text in wish.capacities if members else ():
                # Compared raw with what is published, and our capacities have no domain.
                plain = {read.name for read in catalogue.names(members or ()) if read.family == "capacity"}
                if text.text in plain:
                    continue
                bare = text.text.rpartition("/")[2]
                near = bare if bare in plain else None
                fix = f"write {near}" if near else f"one of {', '.join(sorted(plain))}"
                message = f"no device of class {wish.device_class} has a capacity named {text.text}"
                yield context.finding(UNKNOWN_CAPACITY, claim.manifest, text.path, message, fix=fix)


def _once(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Each value where it is read first."""
    first: dict[Read, Reading] = {}
    for reading in readings:
        first.setdefault(reading.read, reading)
    return iter(first.values())


def _check_reading(context: Context, selection: Selection, reading: Reading) -> Iterator[Finding]:
    read, devices = reading.read, selection.of_class
    known = catalogue.names(devices)
    if not devices:
        # Nothing is known of the class. A domain that looks like ours is still worth a word.
        ours = catalogue.near_domain(read.domain, [DRIVER_NAME], ())
        if ours is None or selection.wish is None or context.candidates(selection.wish.device_class) == ():
            return
        known = catalogue.names(context.devices)
    domains = {one.domain for one in known}
    severity: Severity = "warning" if _guarded(selection, read) else "error"
    meant = read
    if read.domain not in domains:
        drivers = {device.driver for device in devices or context.devices}
        near = catalogue.near_domain(read.domain, domains, drivers)
        yield _unknown_domain(context, selection, reading, near, severity)
        if near is None or any(read.domain == one.name for one in known):
            return
        meant = read._replace(domain=near)
    if meant in known or catalogue.entry(meant) is not None:
        if meant == read:
            yield from _check_class(context, selection, reading, severity)
        return
    other = meant._replace(family=catalogue.OTHER[read.family])
    if other in known or catalogue.entry(other) is not None:
        yield _misplaced(context, selection, reading, other, severity)
        return
    yield _unknown_name(context, selection, reading, catalogue.near_name(meant, known), severity)


def _unknown_domain(
    context: Context, selection: Selection, reading: Reading, near: str | None, severity: Severity
) -> Finding:
    domain = reading.read.domain
    message = f'no known device has the domain "{domain}"'
    read = catalogue.near_name(
        Read(reading.read.family, near or "", domain), catalogue.names(context.devices)
    )
    if read is not None and read.name == domain:
        message = f'"{domain}" is no domain: the first key is the domain, the second the name'
        fix = f"write {read}"
    else:
        fix = f'did you mean "{near}"?' if near else "the domain is the name of the driver"
    return context.finding_in(UNKNOWN_DOMAIN, selection, message, at=reading.node, fix=fix, severity=severity)


def _unknown_name(
    context: Context, selection: Selection, reading: Reading, near: Read | None, severity: Severity
) -> Finding:
    read, edits = reading.read, []
    message = f"no known device has the {_WORD[read.family]} {read.domain}/{read.name}"
    fix = f"did you mean {near}?" if near else None
    if near is not None and near[:2] == read[:2] and near.name.lower() == read.name.lower():
        edits = [_rename(context, selection, reading.node, read.name, near.name)]
    return context.finding_in(
        _UNKNOWN[read.family], selection, message, at=reading.node, fix=fix, edits=edits, severity=severity
    )


def _misplaced(
    context: Context, selection: Selection, reading: Reading, other: Read, severity: Severity
) -> Finding:
    read = reading.read
    message = f"{read.name} is {_a(other.family)}, not {_a(read.family)}"
    edits = []
    if other.domain == read.domain:
        edits = [_rename(context, selection, reading.family_node, read.family, other.family)]
    return context.finding_in(
        _MISPLACED[read.family],
        selection,
        message,
        at=reading.node,
        fix=f"write {other}",
        edits=edits,
        severity=severity,
    )


def _check_class(
    context: Context, selection: Selection, reading: Reading, severity: Severity
) -> Iterator[Finding]:
    read, devices = reading.read, selection.of_class
    found = catalogue.entry(read)
    if selection.wish is None or found is None or not devices or any(read in d.values for d in devices):
        return
    types = {device.type for device in devices}
    if types & set(found.devices):
        return
    others = " and ".join(f"{kind}.nvidia.com" for kind in found.devices if kind != "partition")
    message = f"no device of class {selection.wish.device_class} has the {_WORD[read.family]} {read.domain}/{read.name}"
    fix = f"devices of class {others} have it"
    yield context.finding_in(
        CLASS_LACKS_ATTRIBUTE, selection, message, at=reading.node, fix=fix, severity=severity
    )


def _guarded(selection: Selection, read: Read) -> bool:
    """Whether the value is only ever read where it is there, as far as the names tell."""
    return any(one.guarded and one.read == read for one in selection.expression.readings)


def _a(family: str) -> str:
    return "a capacity" if family == "capacity" else "an attribute"


def _rename(context: Context, selection: Selection, node: ast.Node, old: str, new: str) -> Edit | None:
    """The edit of the field name of `operand.old`; None where it is written as a key."""
    if not isinstance(node, ast.Select):
        return None
    start = selection.expression.offset(node.line, node.column) + 1
    text = selection.text.text
    start += len(text[start:]) - len(text[start:].lstrip())
    if text[start : start + len(old)] != old:
        return None
    return context.rewrite(selection.manifest, selection.text.path, start, start + len(old), new)
