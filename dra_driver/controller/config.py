"""The controller's configuration file, which `--config` names.

YAML, read strictly: a misspelled key or rule would else be a policy that nobody follows. All mistakes are told at once,
each with its place in the file. `api/controllerconfig.schema.json` is made from these models.
"""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from dra_driver.errors import UsageError
from dra_driver.lint import RULES
from dra_driver.lint.nodes import MAX_BYTES, Node, read

API_VERSION = "config.dra-driver.io/v1alpha1"
KIND = "ControllerConfig"
_CODES = tuple(rule.code for rule in RULES)

_KEYS = ("apiVersion", "kind", "webhook", "rules", "namespaces", "matchLabels")
_EXPECTED = {
    "string_type": "a text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "at least one label",
}
_MAX_SHOWN = 100

Action = Literal["deny", "warn", "off"]


def _spelled(value: object) -> object:
    """YAML 1.1 reads `off` as false."""
    return "off" if value is False else value


def _known(code: str) -> str:
    if code not in _CODES:
        near = get_close_matches(code, _CODES, 1)
        hint = f"did you mean {near[0]}?" if near else "docs/lint.md has them all"
        raise PydanticCustomError("rule", "there is no rule {code}; {hint}", {"code": code, "hint": hint})
    return code


_Code = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(_CODES)})]
Rules = dict[_Code, Annotated[Action, BeforeValidator(_spelled)]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class NamespacePolicy(_Model):
    """Other actions for the objects of some namespaces."""

    match_labels: dict[str, str] = Field(
        description="Labels that a namespace must have, all of them; kubernetes.io/metadata.name is its name.",
        min_length=1,
    )
    rules: Rules = Field(description="The action by the code of a rule.")


class WebhookConfig(_Model):
    """What the admission webhook does about a finding."""

    rules: Rules = Field(
        default={},
        description="The action by the code of a rule. Without one, errors deny, warnings warn, and information is"
        " not shown.",
    )
    namespaces: tuple[NamespacePolicy, ...] = Field(
        default=(),
        description="The first entry that matches the namespace and has the rule decides, before `rules`.",
        strict=False,
    )


class ControllerConfig(_Model):
    """Configuration of `dra-driver controller`."""

    api_version: Literal["config.dra-driver.io/v1alpha1"]
    kind: Literal["ControllerConfig"]
    webhook: WebhookConfig = WebhookConfig()


DEFAULT = ControllerConfig.model_validate({"apiVersion": API_VERSION, "kind": KIND})


def load(path: Path) -> ControllerConfig:
    """The configuration in a file; UsageError says all that is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return parse(data, str(path))


def parse(data: bytes, source: str) -> ControllerConfig:
    """As `load`, of what was read already."""
    file = read(data, source)
    if len(file.documents) != 1:
        raise UsageError(f"{source} is no {KIND}: expected one document, found {len(file.documents)}")
    document = file.documents[0]
    problems = [f"line {key.line}: the key {name} is there twice" for name, key in file.duplicates]
    try:
        config = ControllerConfig.model_validate(document.value)
    except ValidationError as error:
        problems += [_problem(document, problem) for problem in error.errors(include_url=False)]
    if problems:
        raise UsageError(f"{source} is no valid {KIND}: {'; '.join(problems)}")
    return config


def _problem(document: Node, problem: ErrorDetails) -> str:
    place = [step for step in problem["loc"] if step != "[key]"]
    node, line = document, document.line
    for step in place:
        if isinstance(step, str) and step in node.entries:
            node, line = node.entries[step], node.keys[step].line
        elif isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            line = node.line
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return f"line {line}: {where.removeprefix('.') or KIND}: {_in_words(problem)}"


def _in_words(problem: ErrorDetails) -> str:
    match problem["type"]:
        case "rule":
            return problem["msg"]
        case "missing":
            return "it is required"
        case "extra_forbidden":
            near = get_close_matches(str(problem["loc"][-1]), _KEYS, 1)
            return f"unknown key{f'; did you mean {near[0]}?' if near else ''}"
        case "literal_error":
            expected = str(problem["ctx"]["expected"]).replace("'", "")
        case kind:
            expected = _EXPECTED.get(kind, "something else")
    return f"expected {expected}, found {json.dumps(problem['input'], default=str)[:_MAX_SHOWN]}"
