"""What is done about a finding, by rule, severity and namespace."""

from typing import Any

import pytest

from dra_driver.controller.config import WebhookConfig
from dra_driver.controller.webhook.policy import Policy
from dra_driver.lint import Finding, Severity


def finding(code: str = "opaque-config", severity: Severity = "error") -> Finding:
    return Finding(code, severity, "object", 1, 1, "spec", "message")


def policy(**config: Any) -> Policy:
    return Policy(WebhookConfig.model_validate(config))


@pytest.mark.parametrize(("severity", "action"), [("error", "deny"), ("warning", "warn"), ("info", "off")])
def test_without_a_policy_the_severity_decides(severity: Severity, action: str) -> None:
    assert action == policy().action(finding(severity=severity), {})


@pytest.mark.parametrize(
    ("code", "action"),
    [("invalid-object", "off"), ("version-shape", "off"), ("selector-does-not-compile", "warn")],
)
def test_what_the_api_server_has_judged_is_not_judged_again(code: str, action: str) -> None:
    assert action == policy().action(finding(code), {})


def test_information_stays_hidden_also_of_a_rule_that_warns() -> None:
    assert "off" == policy().action(finding("admin-namespace", "info"), {})


def test_a_rule_decides_whatever_the_severity_is() -> None:
    chosen = policy(rules={"never-matches": "deny", "opaque-config": "off"})

    assert "deny" == chosen.action(finding("never-matches", "info"), {})
    assert "off" == chosen.action(finding("opaque-config"), {})


NAMESPACES = [
    {"matchLabels": {"team": "a", "stage": "test"}, "rules": {"opaque-config": "off"}},
    {"matchLabels": {"team": "a"}, "rules": {"opaque-config": "warn", "just-missed": "deny"}},
]


@pytest.mark.parametrize(
    ("labels", "action"),
    [
        ({}, "deny"),
        ({"team": "b"}, "deny"),
        ({"team": "a"}, "warn"),
        ({"team": "a", "stage": "test", "x": "y"}, "off"),
    ],
    ids=["no labels", "other", "one label", "both labels"],
)
def test_the_first_entry_whose_labels_a_namespace_has_decides(labels: dict[str, str], action: str) -> None:
    assert action == policy(namespaces=NAMESPACES).action(finding(), labels)


def test_an_entry_without_the_rule_is_passed_over() -> None:
    labels = {"team": "a", "stage": "test"}

    assert "deny" == policy(namespaces=NAMESPACES).action(finding("just-missed", "warning"), labels)
