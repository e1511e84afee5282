"""From a request to a verdict: lint, asked about one object with the cluster around it.

* What was accepted once stays: an update that leaves the spec alone, such as one of finalizers, is never refused, and
  neither is anything on an object that is being deleted.
* Pods and what makes them are warned about and never refused: they are not ours.
* Of an object that is in a version or of a kind that is not known here, nothing is said but that.
* What the API server cannot be asked for now is taken as not known, and what is not known is not judged.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from dra_driver import strictjson
from dra_driver.controller.config import Action
from dra_driver.controller.webhook.policy import Policy
from dra_driver.controller.webhook.protocol import Cause, Object, Request, Verdict
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.lint import Finding, Surroundings, lint_objects
from dra_driver.lint.claims import claim_of
from dra_driver.lint.manifests import Manifest, as_map
from dra_driver.lint.nodes import File, Node
from dra_driver.lint.pods import Pods, pods_of
from dra_driver.lint.shapes import DUPLICATE_KEY
from dra_driver.yamlevents import YamlError

RESOURCES = frozenset({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass"})
WORKLOADS = frozenset({("v1", "Pod"), ("apps/v1", "Deployment"), ("batch/v1", "Job")})
_VERSIONS = frozenset({f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1")})
_SUBJECT, _BESIDE = "object", "beside"  # what is judged, and what is only known
_MAX_NAMED = 32  # claims and templates of a Pod that are looked up; with more, none is called missing


class Cluster(Protocol):
    """What the reviewer asks about the cluster. ApiError and UnavailableError: not known now."""

    def surroundings(self, classes: Iterable[str]) -> Surroundings:
        """Devices and classes; `classes` are those that have to be up to date."""

    def namespace(self, name: str) -> Object | None: ...

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        """A claim or template."""

    def names(self, kind: str, namespace: str) -> Iterable[str]:
        """Some of the claims or templates of a namespace."""


class Reviewer:
    """Judges requests."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy

    def review(self, request: Request) -> tuple[Verdict, list[tuple[Finding, Action]]]:
        """The verdict, and for the metrics what it comes from."""
        is_workload = (request.api_version, request.kind) in WORKLOADS
        if not is_workload and not (request.kind in RESOURCES and request.api_version in _VERSIONS):
            return Verdict(
                warnings=(f"{request.api_version} {request.kind} is not known here, so not checked",)
            ), []
        if request.operation not in {"CREATE", "UPDATE"} or _is_settled(request):
            return Verdict(), []
        obj = {
            **request.object,
            "apiVersion": request.api_version,
            "kind": request.kind,
            "metadata": {"namespace": request.namespace, **as_map(request.object.get("metadata"))},
        }
        home = self._namespace(request.namespace)
        try:
            findings = self._workload(obj) if is_workload else list(self._resource(obj, home))
        except YamlError as error:
            return Verdict(warnings=(f"the object is too large to be checked: {error.problem}",)), []
        labels = _labels(home)
        chosen = [(finding, self._policy.action(finding, labels)) for finding in findings]
        if is_workload:
            chosen = [(finding, "warn" if action == "deny" else action) for finding, action in chosen]
        causes = tuple(Cause(f.path, _sentence(f)) for f, action in chosen if action == "deny")
        warnings = tuple(
            f"{f.path}: {_sentence(f)}" if f.path else _sentence(f)
            for f, action in chosen
            if action == "warn"
        )
        return Verdict(causes, warnings), chosen

    def _namespace(self, name: str) -> Object | None:
        try:
            return self._cluster.namespace(name) if name else None
        except (ApiError, UnavailableError):
            return None

    def _resource(self, obj: Object, home: Object | None) -> Iterator[Finding]:
        claim = claim_of(_manifest(obj))
        classes = {wish.device_class for wish in claim.wishes if wish.device_class} if claim else set()
        surroundings = self._cluster.surroundings(classes)
        yield from _findings(obj, surroundings, [] if home is None else [home])
        for place, key in strictjson.repeated(obj):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
            message = f"the key {key} is there twice"
            yield Finding(
                DUPLICATE_KEY.code, DUPLICATE_KEY.severity, _SUBJECT, 1, 1, path.removeprefix("."), message
            )

    def _workload(self, obj: Object) -> list[Finding]:
        pods = pods_of(_manifest(obj))
        if pods is None or not pods.claims:
            return []
        try:
            beside = list(self._named(pods))
        except (ApiError, UnavailableError):
            # Better nothing than to call missing what may well be there.
            return [f for f in _findings(obj, Surroundings()) if f.code != "missing-claim"]
        classes = {
            wish.device_class
            for other in beside
            if (claim := claim_of(_manifest(other))) is not None
            for wish in claim.wishes
            if wish.device_class
        }
        around = self._cluster.surroundings(classes)
        has_claims = len(pods.claims) <= _MAX_NAMED
        return _findings(obj, replace(around, has_claims=has_claims), beside)

    def _named(self, pods: Pods) -> Iterator[Object]:
        """The claims and templates that Pods name; for one that is not there, what others there are."""
        namespace = pods.manifest.namespace
        listed: set[str] = set()
        for entry in pods.claims[:_MAX_NAMED]:
            kind = "ResourceClaimTemplate" if entry.template else "ResourceClaim"
            name = entry.template or entry.claim
            found = self._cluster.named(kind, namespace, name) if name else None
            if found is not None:
                yield found
            elif name and kind not in listed:
                listed.add(kind)
                for other in self._cluster.names(kind, namespace):
                    yield _stub(kind, namespace, other)


def _findings(obj: Object, surroundings: Surroundings, beside: Iterable[Object] = ()) -> list[Finding]:
    others = [(_BESIDE, other) for other in beside]
    return lint_objects([(_SUBJECT, obj)], surroundings, beside=others)


def _is_settled(request: Request) -> bool:
    """Whether nothing is asked for that was not accepted before."""
    if as_map(request.object.get("metadata")).get("deletionTimestamp"):
        return True
    return request.operation == "UPDATE" and request.object.get("spec") == request.old.get("spec")


def _labels(home: Object | None) -> Mapping[str, str]:
    return as_map(as_map((home or {}).get("metadata")).get("labels"))


def _sentence(finding: Finding) -> str:
    fix = f"; {finding.fix}" if finding.fix else ""
    return f"{finding.message}{fix} [{finding.code}]"


def _manifest(obj: Object) -> Manifest:
    """For those who ask for what is in it, and not for places."""
    return Manifest(File(_SUBJECT, "", [], []), Node(0, 0, 1, 1, "-", obj), 0)


def _stub(kind: str, namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }
