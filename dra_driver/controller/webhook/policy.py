"""What is done about a finding: deny, warn, or nothing.

By default errors deny, warnings warn, and information is not shown. Some rules are about what the API server judges
itself, and it judged before it asked us: there a newer server may take what we know nothing of, and its word stands.
"""

from collections.abc import Mapping

from dra_driver.controller.config import Action, WebhookConfig
from dra_driver.lint import Finding, Severity

_BY_SEVERITY: Mapping[Severity, Action] = {"error": "deny", "warning": "warn", "info": "off"}
_BY_RULE: Mapping[str, Action] = {
    "invalid-object": "off",
    "version-shape": "off",
    "selector-does-not-compile": "warn",
    "admin-namespace": "warn",
}


class Policy:
    """The actions that a configuration asks for."""

    def __init__(self, config: WebhookConfig) -> None:
        self._config = config

    def action(self, finding: Finding, labels: Mapping[str, str]) -> Action:
        """What to do about a finding on an object in a namespace with these labels."""
        for entry in self._config.namespaces:
            if finding.code in entry.rules and entry.match_labels.items() <= labels.items():
                return entry.rules[finding.code]
        default = _BY_RULE.get(finding.code)
        if default is None or finding.severity == "info":
            default = _BY_SEVERITY[finding.severity]
        return self._config.rules.get(finding.code, default)
