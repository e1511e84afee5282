"""Files and documents that nothing can be said about, since they cannot be read as objects."""

from collections.abc import Iterator

from dra_driver.lint.context import Context
from dra_driver.lint.finding import Finding, Rule
from dra_driver.lint.manifests import as_text
from dra_driver.lint.nodes import Node
from dra_driver.yamlevents import YamlError

UNREADABLE = Rule(
    "unreadable",
    "error",
    "A file that is no YAML",
    "Nothing in such a file is checked. Large files, deep nesting and aliases that grow without bound are refused as well: "
    "no manifest needs them.",
)
NOT_AN_OBJECT = Rule(
    "not-an-object",
    "error",
    "A document that is no Kubernetes object",
    "An object has `apiVersion` and `kind`. What has not is applied by nobody.",
)
RULES = (UNREADABLE, NOT_AN_OBJECT)


def unreadable(name: str, error: YamlError) -> Finding:
    """The finding for a file that cannot be parsed."""
    return Finding(
        UNREADABLE.code, UNREADABLE.severity, name, error.line or 1, error.column or 1, "", error.problem
    )


def check(context: Context) -> Iterator[Finding]:
    for file in context.files:
        for node in file.documents:
            if (problem := problem_of(node)) is not None:
                yield Finding(
                    NOT_AN_OBJECT.code,
                    NOT_AN_OBJECT.severity,
                    file.name,
                    node.line,
                    node.column,
                    "",
                    problem,
                )


def problem_of(node: Node) -> str | None:
    """Why a document is no object; None where it is one, or empty."""
    if node.value is None:
        return None  # `---` at an end
    if not isinstance(node.value, dict):
        found = "a list" if isinstance(node.value, list) else "a text or number"
        return f"expected an object with apiVersion and kind, found {found}"
    missing = [name for name in ("apiVersion", "kind") if not as_text(node.value.get(name))]
    return f"the object has no {' and no '.join(missing)}" if missing else None
