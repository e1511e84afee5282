"""`docs/lint.md`, made from the rules and their examples; tests run each example."""

from importlib import resources

from dra_driver.lint.context import MAX_EXPRESSIONS
from dra_driver.lint.engine import RULES
from dra_driver.lint.finding import Rule
from dra_driver.lint.nodes import MAX_BYTES, MAX_DEPTH, MAX_NODES

_MADE = "made from dra_driver/lint/ by `make generate`; do not edit"
_FOLDER = resources.files("dra_driver.lint") / "examples"
_INTRODUCTION = f"""\
# What is wrong with my claim, before I apply it?

```sh
dra-driver lint claim.yaml pods/
```

says so, without a cluster: what the API server would refuse, what it would take and the scheduler then fail on, and what
is valid and hardly meant. Claims, templates, classes, slices, and Pods with whatever makes them (Deployment, Job ...) are
looked at together; other objects are passed over. `-` is standard input. Files of `resource.k8s.io/v1`, v1beta2 and
v1beta1 are read.

```text
claim.yaml:12:36: error: memory is a capacity, not an attribute [capacity-as-attribute]
    write device.capacity["gpu.nvidia.com"].memory
```

A finding has a code, a severity, a place, a sentence, and most have a fix.

| severity | means |
|---|---|
| error | refused, or it never does what it says |
| warning | likely not what was meant |
| info | worth knowing; does not count as a finding for the exit code |

| exit code | means |
|---|---|
| 0 | nothing found, or information only |
| 1 | errors or warnings |
| 2 | a file cannot be read or is no YAML, or wrong usage; what could be read is linted all the same |
| 3 | the cluster cannot be reached |

On a terminal the output is a table, elsewhere a line each with the fix indented below; `-o json` and `-o yaml` are for
programs, `-o table` and `-o lines` choose.

## Which GPUs are selectors tried on?

Selectors are evaluated, as the scheduler does it, on every GPU model of the simulated nodes
([simulated-nodes.md](simulated-nodes.md)) and every MIG device that it can be cut into. What a model does not tell (UUID,
driver version, NUMA node) is unknown, and makes an answer uncertain rather than wrong. A GPU that is not among them may
well exist, so "never" is a warning.

To ask about your own cluster instead, add `--live`: selectors are then tried on the devices that it has, its classes are
the classes, and claims that Pods name are looked for in it. Without a cluster at hand, give its slices along, and its
classes if they are not the driver's:

```sh
dra-driver lint --live claim.yaml
kubectl get resourceslices,deviceclasses -o yaml > cluster.yaml
dra-driver lint cluster.yaml claim.yaml
```

A dump of some hundred nodes is larger than the [limits](#limits) allow; there `--live` is the way.

Attributes that are lists of values are known with `--list-attributes`; clusters refuse them while the gate
DRAListTypeAttributes is off, as it is by default up to 1.37.

## What is wrong in my cluster?

```sh
dra-driver lint -n team
```

Without files, the claims, templates and Pods of a namespace are judged, and the classes; `-A` means all namespaces.
A finding's place is then the object and the field's path. `--kubeconfig` says which cluster, as with kubectl. Claims made
from templates are told of at their template.

## Mend files

`dra-driver lint --fix claim.yaml` changes what has one right answer and cannot change the meaning of anything valid:
fields of v1beta1 go under `exactly`, `expression` into `cel`, `source` away, constants and names get their right spelling.
Comments and layout stay. All else is left to you; running it again changes nothing.

## Convert between API versions

`dra-driver lint --convert v1 old.yaml` prints the objects in that version of `resource.k8s.io`: v1, v1beta2 or v1beta1.
Nothing is lost but comments. Items of a List become documents.

## Limits

Files up to {MAX_BYTES >> 20} MiB, {MAX_NODES} values a document with aliases written out, {MAX_DEPTH} levels of nesting, and
{MAX_EXPRESSIONS >> 10} KiB of different selectors at once; what is beyond has a finding.

## Rules
"""


def render_markdown() -> str:
    """The page."""
    table = ["| code | severity | finds |", "|---|---|---|"]
    table += [f"| [{rule.code}](#{rule.code}) | {rule.severity} | {rule.title} |" for rule in RULES]
    sections = [section for rule in RULES for section in _section(rule)]
    return "\n".join([f"<!-- {_MADE} -->", _INTRODUCTION, *table, "", *sections])


def example(rule: Rule, kind: str) -> str | None:
    """The 'bad' or the 'good' example of a rule; None where one would be too large to show."""
    file = _FOLDER / rule.code / f"{kind}.yaml"
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _section(rule: Rule) -> list[str]:
    parts = [f"### {rule.code}", "", f"{rule.title} ({rule.severity}). {rule.why}", ""]
    bad, good = example(rule, "bad"), example(rule, "good")
    if bad is not None and good is not None:
        # Only what is right is `yaml`: every such block of the documentation has to be valid.
        parts += ["Bad:", "", f"```yml\n{bad}```", "", "Good:", "", f"```yaml\n{good}```", ""]
    return parts
