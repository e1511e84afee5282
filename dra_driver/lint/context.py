"""What the rules look at: all objects that are linted together, and how a finding gets its place.

Objects are judged with what is known of the world: classes of the files or the driver's own, devices of the files'
slices or every known model. What is not known is not judged.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from dra_driver.cel import ast
from dra_driver.cel.errors import Issue
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.lint.claims import Claim, DeviceClass, Text, Wish, claim_of, class_of
from dra_driver.lint.devices import Answer, KnownDevice, Verdict, models, published
from dra_driver.lint.expressions import Expression, analyse
from dra_driver.lint.finding import Edit, Finding, Rule, Severity
from dra_driver.lint.manifests import Manifest, manifests
from dra_driver.lint.nodes import File, Node, read
from dra_driver.lint.pods import PodClaim, Pods, pods_of
from dra_driver.lint.scalars import is_verbatim, offsets
from dra_driver.lint.surroundings import Surroundings

MAX_EXPRESSIONS = 128 << 10  # characters of different selectors that are analysed; compiling costs 4 us each
MAX_TRIALS = 40_000  # times that some selector is tried on some device
_POSSIBLE = frozenset({Answer.YES, Answer.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Selection:
    """A selector where it stands."""

    manifest: Manifest
    text: Text
    expression: Expression
    wish: Wish | None  # None: of a class
    of_class: tuple[KnownDevice, ...]  # devices of the request's class; none where nothing is known of it
    devices: tuple[KnownDevice, ...]  # those that the request's earlier selectors leave
    earlier: tuple[Expression, ...]  # selectors that are evaluated before: the class's, and the request's


class Context:
    """The objects that are linted together."""

    def __init__(
        self, files: Iterable[File], surroundings: Surroundings | None = None, *, lists: bool = False
    ) -> None:
        self.files = tuple(files)
        self.lists = lists  # whether attributes may be lists of values
        self.manifests = tuple(manifests(self.files))
        self.claims = tuple(claim for m in self.manifests if (claim := claim_of(m)) is not None)
        self._named: dict[tuple[str, str, str], Claim] = {}
        for claim in self.claims:
            self._named.setdefault(_key(claim.manifest), claim)
        self.pods = tuple(pods for m in self.manifests if (pods := pods_of(m)) is not None)
        given = [found for m in self.manifests if (found := class_of(m)) is not None]
        around = surroundings or Surroundings()
        self.has_all_claims = around.has_claims
        self.has_all_classes = surroundings is not None
        self.source = "files have" if surroundings is None else "cluster has"  # what is known
        self.given_classes = {**around.classes, **{found.name: found for found in given}}
        self.classes = {**own_classes(), **self.given_classes}
        slices = [m for m in self.manifests if m.kind == "ResourceSlice" and m.is_resource]
        self.published = (*around.devices, *published(slices, lists=lists))
        drivers = {device.driver for device in self.published}
        self.devices = self.published if DRIVER_NAME in drivers else (*self.published, *models())
        self.has_slices = bool(self.published)
        self.unchecked: list[tuple[Manifest, Text]] = []  # more than may be analysed
        self._room = MAX_EXPRESSIONS
        self._trials = MAX_TRIALS
        self._verdicts: dict[tuple[str, int], Verdict] = {}
        self._lasting = {id(device) for device in self.devices}  # variants made for one question are not
        self._expressions: dict[str, Expression] = {}
        self._candidates: dict[str, tuple[KnownDevice, ...] | None] = {}
        self._starts = {id(file): _line_starts(file.text) for file in self.files}
        self.selections = tuple(self._selections())

    def candidates(self, device_class: str) -> tuple[KnownDevice, ...] | None:
        """The known devices of a class; None where the class is not known."""
        if device_class not in self._candidates:
            found = self.classes.get(device_class)
            self._candidates[device_class] = None if found is None else self._members(found)
        return self._candidates[device_class]

    def claim_of(self, pods: Pods, entry: PodClaim) -> Claim | None:
        """The claim or template that an entry of a Pod leads to."""
        namespace = pods.manifest.namespace
        return self._named.get(("ResourceClaimTemplate", namespace, entry.template)) or self._named.get(
            ("ResourceClaim", namespace, entry.claim)
        )

    def compiles(self, text: str) -> bool:
        """Whether a selector is valid, and among those that there was time for."""
        return text in self._expressions and self._expressions[text].selector is not None

    def judge(self, expression: Expression, device: KnownDevice) -> Verdict:
        """What a selector says of a device; UNKNOWN once too much was tried."""
        known = (expression.text, id(device))
        if known in self._verdicts:
            return self._verdicts[known]
        self._trials -= 1
        verdict = device.judge(expression) if self._trials > 0 else Verdict(Answer.UNKNOWN)
        if id(device) in self._lasting:
            self._verdicts[known] = verdict
        return verdict

    def answers(self, expression: Expression, devices: Iterable[KnownDevice]) -> list[Answer]:
        """What a selector says of each device."""
        return [self.judge(expression, device).answer for device in devices]

    def possible(self, expression: Expression, devices: Iterable[KnownDevice]) -> tuple[KnownDevice, ...]:
        """The devices that a selector may leave."""
        return tuple(device for device in devices if self.is_possible(expression, device))

    def finding(
        self,
        rule: Rule,
        manifest: Manifest,
        path: str,
        message: str,
        *,
        fix: str | None = None,
        edits: Iterable[Edit | None] = (),
        at: int | None = None,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding on the field at `path`, or on the character at the offset `at`.

        A None among the edits means that one of them could not be made: then there are none. Only errors are
        edited: what the API server takes and the scheduler can evaluate is never changed.
        """
        node = manifest.key(path)
        line, column = (node.line, node.column) if at is None else self._place(manifest.file, at)
        if not manifest.file.text:
            line = column = 0
        severity = severity or rule.severity
        made = tuple(edits) if severity == "error" else ()
        whole = tuple(edit for edit in made if edit is not None)
        return Finding(
            rule.code,
            severity,
            manifest.file.name,
            line,
            column,
            path,
            message,
            fix,
            whole if len(whole) == len(made) else (),
            manifest.position,
        )

    def finding_in(
        self,
        rule: Rule,
        selection: Selection,
        message: str,
        *,
        at: ast.Node | Issue | None = None,
        fix: str | None = None,
        edits: Iterable[Edit | None] = (),
        severity: Severity | None = None,
    ) -> Finding:
        """A finding on a selector, or on a part of its expression."""
        manifest, path, spot = selection.manifest, selection.text.path, None
        if at is not None:
            spot = self.spot(manifest, path, selection.expression.offset(at.line, at.column))
        return self.finding(rule, manifest, path, message, fix=fix, edits=edits, at=spot, severity=severity)

    def spot(self, manifest: Manifest, path: str, start: int) -> int:
        """The offset in the file of a character of the text at `path`; that of the whole text where unsure."""
        node = manifest.find(path)
        found = offsets(manifest.file.text, node)
        return node.start if found is None else found[min(start, len(found) - 1)]

    def rewrite(self, manifest: Manifest, path: str, start: int, end: int, text: str) -> Edit | None:
        """The edit that puts `text` for some characters of a text; None where quoting makes that risky."""
        node = manifest.node_at(path)
        if node is None or not is_verbatim(manifest.file.text, node, start, end):
            return None
        at = self.spot(manifest, path, start)
        written = _quoted(text, node)
        return None if written is None else Edit(at, at + end - start, written)

    def is_possible(self, expression: Expression, device: KnownDevice) -> bool:
        """Whether a selector may leave a device."""
        return self.judge(expression, device).answer in _POSSIBLE

    def _selectors_of(self, device_class: str) -> tuple[Expression, ...]:
        found = self.classes.get(device_class)
        analysed = () if found is None else map(self._analysed, (text.text for text in found.selectors))
        return tuple(expression for expression in analysed if expression is not None)

    def _members(self, found: DeviceClass) -> tuple[KnownDevice, ...]:
        devices = self.devices
        for selector in found.selectors:
            expression = self._analysed(selector.text)
            devices = () if expression is None else self.possible(expression, devices)
        return devices

    def _selections(self) -> Iterator[Selection]:
        for found in self.given_classes.values():
            if found.manifest is not None:
                yield from self._of(found.manifest, found.selectors, None, self.devices)
        for claim in self.claims:
            for wish in claim.wishes:
                members = self.candidates(wish.device_class)
                yield from self._of(claim.manifest, wish.selectors, wish, members)

    def _of(
        self,
        manifest: Manifest,
        selectors: tuple[Text, ...],
        wish: Wish | None,
        members: tuple[KnownDevice, ...] | None,
    ) -> Iterator[Selection]:
        devices = members
        earlier = () if wish is None else self._selectors_of(wish.device_class)
        for text in selectors:
            expression = self._analysed(text.text)
            if expression is None:
                self.unchecked.append((manifest, text))
                continue
            if members is None and any(one.read.domain == DRIVER_NAME for one in expression.readings):
                members = devices = self.devices  # nobody knows the class, but it must be one of ours
            yield Selection(manifest, text, expression, wish, members or (), devices or (), earlier)
            earlier = (*earlier, expression)
            devices = self.possible(expression, devices or ())

    def _analysed(self, text: str) -> Expression | None:
        if text not in self._expressions:
            if self._room < len(text):
                return None
            self._room -= len(text)
            self._expressions[text] = analyse(text, lists=self.lists)
        return self._expressions[text]

    def _place(self, file: File, offset: int) -> tuple[int, int]:
        starts = self._starts[id(file)]
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1


@cache
def own_classes() -> dict[str, DeviceClass]:
    """The DeviceClasses that come with the driver."""
    data = (resources.files("dra_driver.embedded") / "examples" / "deviceclasses.yaml").read_bytes()
    found = map(class_of, manifests([read(data, "deviceclasses.yaml")]))
    return {known.name: DeviceClass(known.name, known.selectors) for known in found if known is not None}


def _key(manifest: Manifest) -> tuple[str, str, str]:
    return manifest.kind, manifest.namespace, manifest.name


def _line_starts(text: str) -> list[int]:
    starts, at = [0], text.find("\n") + 1
    while at:
        starts.append(at)
        at = text.find("\n", at) + 1
    return starts


def _quoted(text: str, node: Node) -> str | None:
    """`text` as it is written inside the scalar `node`."""
    if "\n" in text:
        return None
    match node.style:
        case "'":
            return text.replace("'", "''")
        case '"':
            return text.replace("\\", "\\\\").replace('"', '\\"')
        case "":
            return None if ": " in text or " #" in text else text
        case _:
            return text
