"""Constraints that cannot hold, or that hold nothing."""

from collections.abc import Iterator, Sequence

from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint import catalogue
from dra_driver.lint.claims import Claim, Constraint, Wish
from dra_driver.lint.context import Context
from dra_driver.lint.devices import STANDARD, KnownDevice
from dra_driver.lint.finding import Edit, Finding, Rule
from dra_driver.lint.names import CAPACITY_AS_ATTRIBUTE, UNKNOWN_ATTRIBUTE
from dra_driver.resource.limits import MAX_RESULTS
from dra_driver.selectors.reads import Read

CONSTRAINT_DOMAIN = Rule(
    "constraint-domain",
    "error",
    "A constraint's attribute has no domain",
    "Inside a constraint an attribute is written with its domain, also where the slice has it without one: "
    "`gpu.nvidia.com/nvlinkClique`. The API server refuses anything else.",
)
CONSTRAINT_NO_EFFECT = Rule(
    "constraint-no-effect",
    "warning",
    "A constraint that keeps nothing out",
    "A constraint compares devices of one claim with each other. Where it is for one request of one device, it compares "
    "nothing, and where all devices have the same value, such as a type, it is always met: the author expected more of "
    "it. Pods are not compared with other Pods.",
)
CONSTRAINT_IMPOSSIBLE = Rule(
    "constraint-impossible",
    "error",
    "Several devices shall share what is unique",
    "No two devices have the same UUID, so no claim for several can be satisfied.",
)
CONSTRAINT_ATTRIBUTE = Rule(
    "constraint-attribute-missing",
    "error",
    "Devices of a request lack the attribute of the constraint",
    "A device without the attribute never satisfies the constraint, so the claim stays pending. Attributes in a driver's "
    "own domain are that driver's; what GPUs and NICs have in common is in the domain `resource.kubernetes.io`.",
)
TOO_MANY_DEVICES = Rule(
    "too-many-devices",
    "error",
    "A claim for more devices than one may have",
    f"A claim is allocated at most {MAX_RESULTS} devices, all on one node. The API server accepts more, and the scheduler "
    "fails on it.",
)
RULES = (
    CONSTRAINT_DOMAIN,
    CONSTRAINT_NO_EFFECT,
    CONSTRAINT_IMPOSSIBLE,
    CONSTRAINT_ATTRIBUTE,
    TOO_MANY_DEVICES,
)

_STANDARD_READS = tuple(Read("attributes", STANDARD, name) for name in ("numaNode", "pcieRoot"))
_UNIQUE = {
    "gpu": frozenset({f"{DRIVER_NAME}/uuid", f"{STANDARD}/pciBusID"}),
    "mig": frozenset({f"{DRIVER_NAME}/uuid"}),
}


def check(context: Context) -> Iterator[Finding]:
    for claim in context.claims:
        yield from _check_count(context, claim)
        for constraint in claim.constraints:
            yield from _check_constraint(context, claim, constraint)


def _check_count(context: Context, claim: Claim) -> Iterator[Finding]:
    fewest = sum(min(wish.count or 1 for wish in wishes) for wishes in claim.requests.values())
    if fewest > MAX_RESULTS:
        largest = max(claim.wishes, key=lambda wish: wish.count or 1)
        message = f"the claim asks for {fewest} devices, and a claim is allocated at most {MAX_RESULTS}"
        yield context.finding(TOO_MANY_DEVICES, claim.manifest, f"{largest.path}.count", message)


def _check_constraint(context: Context, claim: Claim, constraint: Constraint) -> Iterator[Finding]:
    attribute = constraint.attribute
    path = f"{constraint.path}.{constraint.field}"
    if "/" not in attribute:
        yield _no_domain(context, claim, path, attribute)
        return
    requests = claim.named(constraint.requests)
    wishes = [wish for alternatives in requests.values() for wish in alternatives]
    if len(requests) == 1 and all(wish.count == 1 for wish in wishes):
        (request,) = requests
        message = (
            f"the constraint is for request {request} alone, which is one device: there is nothing to compare"
        )
        fix = "name several requests, ask for a higher count, or leave the constraint out"
        yield context.finding(CONSTRAINT_NO_EFFECT, claim.manifest, constraint.path, message, fix=fix)
        return
    domain, _, identifier = attribute.rpartition("/")
    read = Read("attributes", domain, identifier)
    lacking = [wish for wish in wishes if _lacks(context, wish, read)]
    if lacking:
        yield _missing(context, claim, constraint, read, lacking, wishes)
    elif constraint.field == "matchAttribute" and _unique(context, wishes, attribute):
        message = f"{attribute} is different on every device, so no two match"
        yield context.finding(CONSTRAINT_IMPOSSIBLE, claim.manifest, path, message)
    elif constraint.field == "matchAttribute" and _always_equal(context, wishes, read):
        message = f"{attribute} is the same on every device that the requests can get"
        fix = (
            "match what tells devices apart, such as gpu.nvidia.com/nvlinkClique, or leave the constraint out"
        )
        yield context.finding(CONSTRAINT_NO_EFFECT, claim.manifest, path, message, fix=fix)


def _no_domain(context: Context, claim: Claim, path: str, attribute: str) -> Finding:
    members = [d for wish in claim.wishes for d in context.candidates(wish.device_class) or ()]
    known = {read for read in catalogue.names(members) if read.family == "attributes"}
    exact = sorted(read for read in known if read.name == attribute)
    near = exact[0] if exact else catalogue.near_name(Read("attributes", "", attribute), known)
    message = f"{attribute} must be a domain and a name separated by a slash"
    if near is None:
        return context.finding(
            CONSTRAINT_DOMAIN, claim.manifest, path, message, fix=f"write <driver>/{attribute}"
        )
    meant = f"{near.domain}/{near.name}"
    edits: tuple[Edit | None, ...] = ()
    if len(exact) == 1:
        edits = (context.rewrite(claim.manifest, path, 0, len(attribute), meant),)
    return context.finding(
        CONSTRAINT_DOMAIN, claim.manifest, path, message, fix=f"did you mean {meant}?", edits=edits
    )


def _lacks(context: Context, wish: Wish, read: Read) -> bool:
    """Whether no device that the request can get has the attribute, as far as anybody knows."""
    members = context.candidates(wish.device_class)
    if not members:
        # Devices that are not known hardly have an attribute of another driver's own domain.
        return read.domain == DRIVER_NAME and _is_foreign(context, wish)
    if any(read in device.values for device in members):
        return False
    found = catalogue.entry(read)
    if found is None:
        return True
    types = {device.type for device in members}
    return not types & set(found.devices)


def _is_foreign(context: Context, wish: Wish) -> bool:
    """Whether the class is hardly one of our driver's, by its name, and its selectors where it is known."""
    known = context.classes.get(wish.device_class)
    if known is not None and (
        not known.selectors or any(DRIVER_NAME in text.text for text in known.selectors)
    ):
        return False
    return bool(wish.device_class) and not any(word in wish.device_class for word in ("nvidia", "gpu", "mig"))


def _missing(
    context: Context,
    claim: Claim,
    constraint: Constraint,
    read: Read,
    lacking: Sequence[Wish],
    wishes: Sequence[Wish],
) -> Finding:
    path = f"{constraint.path}.{constraint.field}"
    attribute = f"{read.domain}/{read.name}"
    requests = ", ".join(dict.fromkeys(wish.name for wish in lacking))
    common = _common(context, wishes)
    rule, message, fix = (
        CONSTRAINT_ATTRIBUTE,
        f"devices of request {requests} do not have the attribute {attribute}",
        None,
    )
    if Read("capacity", read.domain, read.name) in catalogue.names(_members(context, wishes)):
        rule, message = CAPACITY_AS_ATTRIBUTE, f"{attribute} is a capacity; constraints compare attributes"
    elif len(lacking) == len(wishes) and catalogue.entry(read) is None:
        rule, message = UNKNOWN_ATTRIBUTE, f"no known device has the attribute {attribute}"
    near = catalogue.near_name(read, common)
    standard = sorted(other for other in common if other.domain == STANDARD)
    if near is not None:
        fix = f"all of them have {near.domain}/{near.name}"
    elif usual := catalogue.near_name(read, _STANDARD_READS):
        fix = f"common to GPUs and NICs is {usual.domain}/{usual.name}, where their drivers publish it"
    elif standard:
        fix = f"all of them have {', '.join(f'{other.domain}/{other.name}' for other in standard)}"
    return context.finding(rule, claim.manifest, path, message, fix=fix)


def _members(context: Context, wishes: Sequence[Wish]) -> list[KnownDevice]:
    return [device for wish in wishes for device in context.candidates(wish.device_class) or ()]


def _common(context: Context, wishes: Sequence[Wish]) -> set[Read]:
    """Attributes that devices of every request have, and that tell something when they are equal.

    Of a class that nobody knows, the standard attributes are assumed.
    """
    common: set[Read] | None = None
    for wish in wishes:
        members = context.candidates(wish.device_class)
        found = {read for device in members for read in device.values} if members else set(_STANDARD_READS)
        found = {one for one in found if one.family == "attributes" and one.name not in {"uuid", "pciBusID"}}
        common = found if common is None else common & found
    return common or set()


def _unique(context: Context, wishes: Sequence[Wish], attribute: str) -> bool:
    members = _members(context, wishes)
    types = {str(device.type) for device in members}
    return bool(types) and all(attribute in _UNIQUE.get(kind, frozenset()) for kind in types)


def _always_equal(context: Context, wishes: Sequence[Wish], read: Read) -> bool:
    """Whether all known models agree; the few devices of given slices may do so by chance."""
    groups = [context.candidates(wish.device_class) for wish in wishes]
    if context.has_slices or not all(groups):
        return False
    members = _members(context, wishes)
    if any(read in device.varying or read not in device.values for device in members):
        return False
    return len({device.values[read] for device in members}) == 1
