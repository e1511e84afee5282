"""What the compiler refuses, at its place in the file, in words for people who don't know CEL by heart."""

from collections.abc import Collection, Iterator

from dra_driver.cel.errors import Issue
from dra_driver.lint import types
from dra_driver.lint.context import Context, Selection
from dra_driver.lint.devices import FAILURES, KnownDevice, Verdict
from dra_driver.lint.finding import Finding, Rule
from dra_driver.lint.near import did_you_mean
from dra_driver.selectors.selector import environment

SELECTOR_COMPILE = Rule(
    "selector-does-not-compile",
    "error",
    "A selector that is no valid CEL",
    "The API server refuses the object with the compiler's message; here it stands at its line and column in the file.",
)
SELECTOR_FAILS = Rule(
    "selector-fails",
    "error",
    "A selector that fails on every device",
    "The API server accepts it, and the scheduler gives up on every node: a value is used as something that it is not.",
)
NOT_CHECKED = Rule(
    "not-checked",
    "warning",
    "More selectors than are checked at once",
    "Analysing an expression costs time, and linting must end soon whatever it is given. Give fewer files at once.",
)
RULES = (SELECTOR_COMPILE, SELECTOR_FAILS, NOT_CHECKED)

Place = tuple[str, int, str]
"""File, object in it, and path of a field."""

_FIELDS = "device has the fields driver, attributes, capacity and allowMultipleAllocations"
_HINTS = {
    "quantity": "quantity(...) is a function that makes a quantity of a text, and what is under device.capacity is one "
    "already: device.capacity[\"gpu.nvidia.com\"].memory.compareTo(quantity('24Gi')) >= 0",
    "semver": "semver(...) is a function that makes a version of a text, and version attributes are versions already",
    "value": "a quantity is compared with compareTo(quantity(...)); asInteger() gives its number",
    "name": f"{_FIELDS}, and no name",
    "node": f"{_FIELDS}; nodes are chosen by the Pod's node selector or affinity",
    "pool": f"{_FIELDS}, and no pool",
    "labels": f"{_FIELDS}; devices have no labels",
    "taints": f"{_FIELDS}; taints are tolerated by the request's tolerations",
}


def check(context: Context) -> Iterator[Finding]:
    for selection in context.selections:
        known = types.explained(selection)
        for issue in selection.expression.issues:
            if (issue.line, issue.column) not in known:
                yield _refused(context, selection, issue)
    for manifest, text in context.unchecked:
        yield context.finding(
            NOT_CHECKED, manifest, text.path, "this selector is not checked: there are too many"
        )


def check_evaluation(context: Context, settled: Collection[Place]) -> Iterator[Finding]:
    """Selectors that fail on every device for a reason that no other rule has found.

    `settled` are the fields that have an error already.
    """
    for selection in context.selections:
        manifest = selection.manifest
        place = (manifest.file.name, manifest.position, selection.text.path)
        if place in settled or selection.expression.selector is None:
            continue
        verdicts = [context.judge(selection.expression, device) for device in selection.devices]
        if verdicts and all(verdict.answer in FAILURES for verdict in verdicts):
            yield _fails(context, selection, selection.devices[0], verdicts[0])


def _fails(context: Context, selection: Selection, device: KnownDevice, verdict: Verdict) -> Finding:
    message = f"the selector fails on every device: on {device.label}, {verdict.error}"
    return context.finding_in(SELECTOR_FAILS, selection, message)


def _refused(context: Context, selection: Selection, issue: Issue) -> Finding:
    message = " ".join(issue.message.split())
    return context.finding_in(SELECTOR_COMPILE, selection, message, at=issue, fix=_hint(issue))


def _hint(issue: Issue) -> str | None:
    name = issue.name or ""
    if name in _HINTS:
        return _HINTS[name]
    if "must evaluate to bool" in issue.message:
        return "a selector is a condition: compare the value with something"
    if "kubernetes.Quantity" in issue.message and name.startswith("_"):
        return "quantities are compared with compareTo(quantity(...)), isGreaterThan or isLessThan"
    if "kubernetes.Semver" in issue.message and name.startswith("_"):
        return "versions are compared with compareTo(semver(...)), isGreaterThan or isLessThan"
    if issue.message.startswith("undefined field"):
        return did_you_mean(name, ["driver", "attributes", "capacity", "allowMultipleAllocations"]) or _FIELDS
    if issue.message.startswith("undeclared reference"):
        return did_you_mean(name, ["device", *environment().functions])
    return None
