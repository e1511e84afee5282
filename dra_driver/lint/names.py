"""Names in selectors: domains, attributes and capacities that no device has, or that are something else.

Reading such a name is an error on every device unless it is guarded, and then it is only ever absent; both are hardly
what the author meant.
"""

from collections.abc import Iterable, Iterator

from dra_driver.cel import ast
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint import catalogue
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.devices import Name
from dra_driver.lint.expressions import Read, reference
from dra_driver.lint.finding import Edit, Finding, Rule, Severity

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
        for read in _once(selection.expression.reads):
            yield from _check_read(context, selection, read)
    for claim in context.claims:
        for wish in claim.wishes:
            members = context.candidates(wish.device_class)
            for text in wish.capacities if members else ():
                # Compared raw with what is published, and our capacities have no domain.
                plain = {name[2] for name in catalogue.names(members or ()) if name[0] == "capacity"}
                if text.text in plain:
                    continue
                bare = text.text.rpartition("/")[2]
                near = bare if bare in plain else None
                fix = f"write {near}" if near else f"one of {', '.join(sorted(plain))}"
                message = f"no device of class {wish.device_class} has a capacity named {text.text}"
                yield context.finding(UNKNOWN_CAPACITY, claim.manifest, text.path, message, fix=fix)


def _once(reads: Iterable[Read]) -> Iterator[Read]:
    """Each name where it is read first."""
    first: dict[Name, Read] = {}
    for read in reads:
        first.setdefault(_name(read), read)
    return iter(first.values())


def _check_read(context: Context, selection: Selection, read: Read) -> Iterator[Finding]:
    devices = selection.of_class
    known = catalogue.names(devices)
    if not devices:
        # Nothing is known of the class. A domain that looks like ours is still worth a word.
        ours = catalogue.near_domain(read.domain, [DRIVER_NAME], ())
        if ours is None or selection.wish is None or context.candidates(selection.wish.device_class) == ():
            return
        known = catalogue.names(context.devices)
    domains = {name[1] for name in known}
    domain = read.domain
    severity: Severity = "warning" if _guarded(selection, read) else "error"
    if domain not in domains:
        drivers = {device.driver for device in devices or context.devices}
        near = catalogue.near_domain(domain, domains, drivers)
        yield _unknown_domain(context, selection, read, near, severity)
        if near is None or any(domain == name[2] for name in known):
            return
        domain = near
    name: Name = (read.family, domain, read.name)
    if name in known or catalogue.entry(name) is not None:
        if domain == read.domain:
            yield from _check_class(context, selection, read, severity)
        return
    other: Name = (catalogue.OTHER[read.family], domain, read.name)
    if other in known or catalogue.entry(other) is not None:
        yield _misplaced(context, selection, read, other, severity)
        return
    yield _unknown_name(context, selection, read, catalogue.near_name(name, known), severity)


def _unknown_domain(
    context: Context, selection: Selection, read: Read, near: str | None, severity: Severity
) -> Finding:
    message = f'no known device has the domain "{read.domain}"'
    name = catalogue.near_name((read.family, near or "", read.domain), catalogue.names(context.devices))
    if name is not None and name[2] == read.domain:
        message = f'"{read.domain}" is no domain: the first key is the domain, the second the name'
        fix = f"write {reference(*name)}"
    else:
        fix = f'did you mean "{near}"?' if near else "the domain is the name of the driver"
    return _at(context, UNKNOWN_DOMAIN, selection, read, message, fix, severity)


def _unknown_name(
    context: Context, selection: Selection, read: Read, near: Name | None, severity: Severity
) -> Finding:
    where = "no known device has"
    message = f"{where} the {_WORD[read.family]} {read.domain}/{read.name}"
    fix = f"did you mean {reference(*near)}?" if near else None
    edit = None
    if near is not None and near[:2] == (read.family, read.domain) and near[2].lower() == read.name.lower():
        edit = _rename(context, selection, read.node, read.name, near[2])
    return _at(context, _UNKNOWN[read.family], selection, read, message, fix, severity, edit)


def _misplaced(
    context: Context, selection: Selection, read: Read, other: Name, severity: Severity
) -> Finding:
    message = f"{read.name} is {_a(other[0])}, not {_a(read.family)}"
    edit = _rename(context, selection, read.family_node, read.family, other[0])
    if other[1] != read.domain:
        edit = None
    fix = f"write {reference(*other)}"
    return _at(context, _MISPLACED[read.family], selection, read, message, fix, severity, edit)


def _check_class(context: Context, selection: Selection, read: Read, severity: Severity) -> Iterator[Finding]:
    name: Name = (read.family, read.domain, read.name)
    found = catalogue.entry(name)
    devices = selection.of_class
    if selection.wish is None or found is None or not devices or any(name in d.values for d in devices):
        return
    types = {device.values.get(("attributes", DRIVER_NAME, "type")) for device in devices}
    if types & set(found.devices):
        return
    others = " and ".join(f"{kind}.nvidia.com" for kind in found.devices if kind != "partition")
    message = f"no device of class {selection.wish.device_class} has the {_WORD[read.family]} {read.domain}/{read.name}"
    fix = f"devices of class {others} have it"
    yield _at(context, CLASS_LACKS_ATTRIBUTE, selection, read, message, fix, severity)


def _guarded(selection: Selection, read: Read) -> bool:
    """Whether the value is only ever read where it is there, as far as the names tell."""
    same = [r for r in selection.expression.reads if (r.family, r.domain, r.name) == _name(read)]
    return any(r.guarded for r in same)


def _name(read: Read) -> Name:
    return read.family, read.domain, read.name


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


def _at(
    context: Context,
    rule: Rule,
    selection: Selection,
    read: Read,
    message: str,
    fix: str | None,
    severity: Severity,
    edit: Edit | None = None,
) -> Finding:
    place = selection.expression.offset(read.node.line, read.node.column)
    spot = context.spot(selection.manifest, selection.text.path, place)
    path = selection.text.path
    edits = () if edit is None else (edit,)
    return context.finding(
        rule, selection.manifest, path, message, fix=fix, edits=edits, at=spot, severity=severity
    )
