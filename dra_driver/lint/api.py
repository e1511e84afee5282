"""What an API server refuses, with line and column.

The rules are those of `dra_driver.resource.validation`; here they get places. v1beta1 objects are judged as the v1 objects
that they are stored as. Selectors are left to the rules that see into them, but for their cost.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dra_driver.lint.context import Context
from dra_driver.lint.finding import Finding, Rule
from dra_driver.lint.manifests import Manifest
from dra_driver.resource.conversion import convert, is_convertible
from dra_driver.resource.expressions import TOO_COMPLEX
from dra_driver.resource.problems import Problem
from dra_driver.resource.validation import validate
from dra_driver.selectors import compile_selector

INVALID_OBJECT = Rule(
    "invalid-object",
    "error",
    "An object that the API server refuses",
    "The message is the API server's, with its path; the place is that of the field in the file.",
)
RULES = (INVALID_OBJECT,)

_KINDS = frozenset(
    {"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule"}
)


def check(context: Context) -> Iterator[Finding]:
    for manifest in context.manifests:
        if manifest.is_resource and manifest.kind in _KINDS:
            for problem in _problems(manifest, context):
                yield _finding(context, manifest, problem)


def _problems(manifest: Manifest, context: Context) -> list[Problem]:
    obj: Mapping[str, Any] = manifest.object
    if is_convertible(obj):
        # Requests of either shape: which of them the version has is another rule's question.
        obj = convert({**obj, "apiVersion": "resource.k8s.io/v1beta1"}, "v1")

    def cost(expression: str) -> str | None:
        """Only the cost: what else is wrong with a selector is said in detail elsewhere."""
        if not context.compiles(expression):
            return None
        refused = compile_selector(expression, lists=context.lists)
        return TOO_COMPLEX if refused == TOO_COMPLEX else None

    return validate(obj, compile_selector=cost, lists=context.lists, beyond_unknown=True)


def _finding(context: Context, manifest: Manifest, problem: Problem) -> Finding:
    path = problem.path
    request = path.partition(".exactly")[0]
    if request != path and not manifest.has(f"{request}.exactly"):
        path = path.replace(".exactly", "", 1)  # as the file has it
    message = " ".join(problem.message.split())
    return context.finding(INVALID_OBJECT, manifest, path, message)
