"""Reads of values that not every device of the class has.

Found by trying, not by looking: each selector is evaluated on the devices that lack a value, after the selectors before
it, and only an error that really comes out counts. So every way to guard works: has(), `in`, `.?`, `? :`, an earlier
selector, or a condition that no such device meets.
"""

from collections.abc import Iterable, Iterator

from dra_driver.cel import ast
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint import catalogue
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.devices import FAILURES, Answer, KnownDevice, stranger
from dra_driver.lint.expressions import Expression, Reading
from dra_driver.lint.finding import Finding, Rule, Severity
from dra_driver.selectors.reads import Read

UNGUARDED_ATTRIBUTE = Rule(
    "unguarded-attribute",
    "warning",
    "A value is read that not every device has",
    "A missing attribute or capacity is an error, and one such device among the candidates keeps the Pod from being "
    "scheduled at all, though others would fit. Of a value that all known models have, and that the machine may still "
    "not tell, the finding is for information.",
)
CLASS_WITHOUT_DRIVER = Rule(
    "class-without-driver",
    "warning",
    "A class reads attributes of devices of any driver",
    "The selectors of a class meet the devices of all drivers in the cluster. One that reads our attributes of somebody "
    "else's device is an error there. Ask for the driver first.",
)
RULES = (UNGUARDED_ATTRIBUTE, CLASS_WITHOUT_DRIVER)


def check(context: Context) -> Iterator[Finding]:
    for selection in context.selections:
        if selection.wish is None and selection.expression.selector is not None:
            yield from _check_driver(context, selection)
        for reading in _plain_readings(selection.expression):
            yield from _check_reading(context, selection, reading)


def _plain_readings(expression: Expression) -> Iterable[Reading]:
    """Where values are read without a guard of their own, each value once."""
    first: dict[Read, Reading] = {}
    for reading in expression.readings:
        if not reading.guarded:
            first.setdefault(reading.read, reading)
    return first.values() if expression.selector is not None else ()


def _check_reading(context: Context, selection: Selection, reading: Reading) -> Iterator[Finding]:
    read, devices = reading.read, selection.devices
    known = catalogue.entry(read)
    if read not in catalogue.names(selection.of_class) or not any(read in d.values for d in devices):
        return  # names no device has are another rule's
    lacking = [device for device in devices if read not in device.values]
    failing = [device for device in lacking if _fails(context, selection.expression, device, read)]
    if failing:
        count = sum({device.label: device.count for device in failing}.values())
        others = f" and {count - 1} others" if count > 2 else " and another" if count == 2 else ""
        message = f"not every device has {read}: {failing[0].label}{others} would make the selector fail"
        yield _finding(context, selection, reading, message, None)
        return
    if lacking or context.has_slices or known is None or known.when is None:
        return
    without = [device.without(read) for device in devices]
    for expression in selection.earlier:
        without = [device for device in without if context.is_possible(expression, device)]
    if any(_fails(context, selection.expression, device, read) for device in without):
        message = f"a device has {read} only where {known.when}; without it, the selector fails"
        yield _finding(context, selection, reading, message, "info")


def _fails(context: Context, expression: Expression, device: KnownDevice, read: Read) -> bool:
    verdict = context.judge(expression, device)
    if verdict.answer is Answer.ABSENT:
        return read in verdict.missing and verdict.error_name == read.name
    # What is unknown of a model hides the error; a test for the value anywhere is then taken for its guard.
    tested = any(one.guarded and one.read == read for one in expression.readings)
    return verdict.answer is Answer.UNKNOWN and read in verdict.missing and not tested


def _finding(
    context: Context, selection: Selection, reading: Reading, message: str, severity: Severity | None
) -> Finding:
    fix = f"write {guarded_form(selection.expression, reading.read)}"
    return context.finding_in(
        UNGUARDED_ATTRIBUTE, selection, message, at=reading.node, fix=fix, severity=severity
    )


def guarded_form(expression: Expression, read: Read) -> str:
    """How to write the selector so that it is false, not an error, where the value is missing."""
    text = " ".join(expression.text.split())
    tree = expression.tree
    loose = isinstance(tree, ast.Call) and tree.function in {"_||_", "_?_:_"}
    quote = "'" if "'" in text else '"'
    subject = str(read).replace('"', quote)
    return f"has({subject}) && {f'({text})' if loose else text}"


def _check_driver(context: Context, selection: Selection) -> Iterator[Finding]:
    if not _is_first_failure(context, selection):
        return
    message = "the selector fails on devices of other drivers, and is evaluated on all of them"
    drivers = sorted({one.read.domain for one in selection.expression.readings} & _drivers(context))
    driver = drivers[0] if drivers else DRIVER_NAME
    fix = f"put device.driver == '{driver}' && in front"
    yield context.finding_in(CLASS_WITHOUT_DRIVER, selection, message, fix=fix)


def _drivers(context: Context) -> set[str]:
    return {device.driver for device in context.devices}


def _is_first_failure(context: Context, selection: Selection) -> bool:
    """Whether no selector of the class before this one keeps other drivers' devices away."""
    other = stranger()
    for earlier in context.selections:
        if earlier.manifest is selection.manifest and earlier.wish is None:
            answer = other.judge(earlier.expression).answer
            if earlier is selection:
                return answer in FAILURES
            if answer is not Answer.YES:
                return False
    return False
