"""`dra-driver explain`: why a claim or Pod has no devices, and what would change that.

Exit codes: 0 it has its devices, or would get them; 1 it would not; 2 bad input; 3 the cluster cannot be reached.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dra_driver.allocation.diagnosis import Diagnosis, World, diagnose_claim, diagnose_pod, diagnose_template
from dra_driver.allocation.diagnosis.pods import outranked
from dra_driver.allocation.diagnosis.references import near
from dra_driver.cli import live
from dra_driver.cli.explain_json import as_dict
from dra_driver.cli.explain_report import report
from dra_driver.cli.output import format_of, printable, rendered
from dra_driver.cli.table import LAYOUTS
from dra_driver.cli.worlds import Object, Objects, completed, merged, pod_of, sorted_out, world_of
from dra_driver.errors import UsageError
from dra_driver.kube.client import Client
from dra_driver.process import collector
from dra_driver.resource.workloads import WORKLOADS

Kind = Literal["claim", "pod", "template"]
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("template", "templates", "resourceclaimtemplate", "resourceclaimtemplates"), "template"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about; without a kind, everything in the files."""

    kind: Kind | None
    name: str
    namespace: str


def run(
    kind: str | None,
    name: str | None,
    *,
    namespace: str,
    files: Sequence[str],
    with_cluster: bool,
    kubeconfig: Path | None,
    lists: bool,
    output: str | None,
) -> int:
    """Explain, and print; the exit code."""
    question = _question(kind, name, namespace)
    with collector.paused():
        form = format_of(output)
        diagnoses = _diagnoses(question, files, with_cluster, kubeconfig, lists=lists)
        print(_rendered(diagnoses, form), end="")
    return 0 if all(diagnosis.fine for diagnosis in diagnoses) else 1


def _diagnoses(
    question: Question, files: Sequence[str], with_cluster: bool, kubeconfig: Path | None, *, lists: bool
) -> list[Diagnosis]:
    given = _given(files, question.namespace, lists=lists) if files else {}
    if not files or with_cluster:
        if question.kind is None and not files:
            raise UsageError("say what to explain: claim NAME, pod NAME, or files with -f")
        with live.connection(kubeconfig, instead="give files with -f") as client:
            return _live(client, question, given, lists=lists)
    objects, notes = completed(given)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return list(_answers(world_of(objects, lists=lists), question, given))


def _given(files: Sequence[str], namespace: str, *, lists: bool) -> Objects:
    # Reading files needs the API's schemas, which take longer to load than a cluster to answer.
    from dra_driver.cli.objects import read_objects

    return sorted_out(read_objects(files, lists=lists), namespace)


def _question(kind: str | None, name: str | None, namespace: str) -> Question:
    if kind is None:
        return Question(None, "", namespace)
    kind, slash, rest = kind.partition("/")
    if slash and name is None:
        name = rest  # pod/NAME, as kubectl has it
    known = _KINDS.get(kind.lower())
    if known is None:
        raise UsageError(f"there is nothing to explain about a {kind}: expected claim, pod or template")
    if not name:
        raise UsageError(f"say which {known}: dra-driver explain {known} NAME")
    return Question(known, name, namespace)


def _live(client: Client, question: Question, given: Objects, *, lists: bool) -> list[Diagnosis]:
    wanted = {
        **dict.fromkeys(live.SHARED),
        **dict.fromkeys(live.OF_NAMESPACE, question.namespace),
    }
    found = live.listed(client, wanted)
    objects: Objects = {resource.kind: items for resource, items in found.items()}
    if question.kind == "pod":
        objects["Event"] = live.events_about(client, "Pod", question.name, question.namespace)
    world = world_of(merged(objects, given), lists=lists, all_pods=True)
    return [_with_priorities(client, world, diagnosis) for diagnosis in _answers(world, question, given)]


def _with_priorities(client: Client, world: World, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis of a Pod, with those of other namespaces that hold what it lacks."""
    pod = world.pod.get(diagnosis.name)
    if pod is None or not pod["spec"].get("priority") or diagnosis.explanation is None:
        return diagnosis
    unknown = [name for name in dict.fromkeys(diagnosis.holders()) if name not in world.pod]
    known = {**world.pod, **{_name(one): one for one in live.pods_named(client, unknown)}}
    others = (remark for remark in diagnosis.remarks if remark.code != "no-preemption")
    return replace(diagnosis, remarks=(*others, *outranked(known, pod, diagnosis.explanation)))


def _name(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"


def _answers(world: World, question: Question, given: Objects) -> Iterator[Diagnosis]:
    if question.kind is None:
        yield from _everything(world, given)
        return
    name = f"{question.namespace}/{question.name}"
    if question.kind == "pod":
        found = world.pod.get(name)
        if found is None:
            raise UsageError(f"there is no Pod {name}{_near(question, world.pods)}")
        yield diagnose_pod(world, found)
        return
    claim, template = world.claim.get(name), world.template.get(name)
    if question.kind == "claim" and claim is not None:
        yield diagnose_claim(world, claim)
    elif template is not None:
        yield diagnose_template(world, template)
    else:
        kind = "ResourceClaim" if question.kind == "claim" else "ResourceClaimTemplate"
        known = [*world.claims, *world.templates] if question.kind == "claim" else world.templates
        raise UsageError(f"there is no {kind} {name}{_near(question, known)}")


def _near(question: Question, objects: Iterable[Mapping[str, Any]]) -> str:
    here = [
        str(one["metadata"]["name"])
        for one in objects
        if one["metadata"].get("namespace") == question.namespace
    ]
    if not here:
        return f"; namespace {question.namespace} has none at all: -n says which namespace"
    return near(question.name, here)


def _everything(world: World, given: Objects) -> Iterator[Diagnosis]:
    """Pods of the files, one of each workload, and claims and templates that none of them uses."""
    workloads = (one for _, kind in WORKLOADS for one in given.get(kind, ()))
    pods = [*given.get("Pod", ()), *(pod_of(one, str(one["metadata"]["name"])) for one in workloads)]
    used = {
        (kind, f"{pod['metadata']['namespace']}/{entry.get(field)}")
        for pod in pods
        for entry in pod["spec"].get("resourceClaims") or ()
        for kind, field in (("claim", "resourceClaimName"), ("template", "resourceClaimTemplateName"))
    }
    claims = [one for one in given.get("ResourceClaim", ()) if ("claim", _name(one)) not in used]
    templates = [
        one for one in given.get("ResourceClaimTemplate", ()) if ("template", _name(one)) not in used
    ]
    if not pods and not claims and not templates:
        raise UsageError("the files have no Pod, workload, ResourceClaim or ResourceClaimTemplate to explain")
    yield from (diagnose_pod(world, pod) for pod in pods)
    yield from (diagnose_claim(world, claim) for claim in claims)
    yield from (diagnose_template(world, template) for template in templates)


def _rendered(diagnoses: Sequence[Diagnosis], form: str) -> str:
    if form in LAYOUTS:
        return printable("\n".join(report(diagnosis, LAYOUTS[form]) for diagnosis in diagnoses))
    bodies = [as_dict(diagnosis) for diagnosis in diagnoses]
    body = bodies[0] if len(bodies) == 1 else {"items": bodies}
    return rendered(body, output=form)
