"""The configuration file: what it may say, and how mistakes are told."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dra_driver.controller import config
from dra_driver.errors import UsageError

SCHEMA = json.loads((Path(__file__).parents[3] / "api" / "controllerconfig.schema.json").read_text())
HEAD = f"apiVersion: {config.API_VERSION}\nkind: {config.KIND}\n"
GOOD = f"""{HEAD}webhook:
  rules:
    never-matches: deny
    just-missed: off
  namespaces:
    - matchLabels: {{team: research}}
      rules: {{never-matches: "off"}}
"""


def test_a_policy_is_read_and_off_may_stand_without_quotes() -> None:
    read = config.parse(GOOD.encode(), "policy.yaml").webhook

    assert {"never-matches": "deny", "just-missed": "off"} == dict(read.rules)
    assert {"team": "research"} == read.namespaces[0].match_labels


def test_the_head_alone_is_the_default_policy() -> None:
    assert config.DEFAULT == config.parse(HEAD.encode(), "policy.yaml")


WRONG = {
    "rule": (
        "webhook: {rules: {nevermatches: deny}}",
        "line 3: webhook.rules.nevermatches: there is no rule",
    ),
    "near rule": ("webhook: {rules: {never-match: deny}}", "did you mean never-matches?"),
    "action": (
        "webhook:\n  rules:\n    never-matches: refuse",
        'line 5: webhook.rules.never-matches: expected deny, warn or off, found "refuse"',
    ),
    "key": ("webhook: {rule: {}}", "line 3: webhook.rule: unknown key; did you mean rules?"),
    "top": ("hook: {}", "line 3: hook: unknown key; did you mean webhook?"),
    "twice": ("webhook: {}\nwebhook: {}", "line 4: the key webhook is there twice"),
    "labels": (
        "webhook: {namespaces: [{matchLabels: {}, rules: {}}]}",
        "matchLabels: expected at least one label, found {}",
    ),
    "label": (
        "webhook: {namespaces: [{matchLabels: {a: 1}, rules: {}}]}",
        "namespaces[0].matchLabels.a: expected a text, found 1",
    ),
    "not a map": ("webhook: []", "line 3: webhook: expected a mapping, found []"),
    "not a list": ("webhook: {namespaces: {}}", "line 3: webhook.namespaces: expected a list, found {}"),
    "no rules": ("webhook:\n  rules:", "line 4: webhook.rules: expected a mapping, found null"),
    "no labels": ("webhook: {namespaces: [{rules: {}}]}", "namespaces[0].matchLabels: it is required"),
    "documents": ("---\na: b", "expected one document, found 2"),
    "no YAML": ("webhook: {", "expected YAML"),
    "bytes": ("\x00", "found the character"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_with_its_place(name: str) -> None:
    text, message = WRONG[name]

    with pytest.raises(UsageError) as caught:
        config.parse((HEAD + text).encode(), "policy.yaml")

    assert "policy.yaml" in str(caught.value)
    assert message in str(caught.value)


def test_all_mistakes_are_told_at_once() -> None:
    text = f"{HEAD}webhook: {{rules: {{a: deny, never-matches: x}}, more: 1}}"

    with pytest.raises(UsageError) as caught:
        config.parse(text.encode(), "policy.yaml")

    assert 3 == str(caught.value).count("line 3: webhook.")


@pytest.mark.parametrize("text", ["", "[]", "x", "kind: ControllerConfig"])
def test_what_is_no_configuration_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"policy\.yaml"):
        config.parse(text.encode(), "policy.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml cannot be read: No such file"):
        config.load(tmp_path / "none.yaml")


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (3 << 20))

    with pytest.raises(UsageError, match="bytes"):
        config.load(path)


def test_the_schema_takes_what_the_program_takes() -> None:
    content: Any = yaml.safe_load(GOOD.replace("off\n", '"off"\n'))

    jsonschema.validate(content, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "webhook": {"rules": {"x": "deny"}}}, SCHEMA)
