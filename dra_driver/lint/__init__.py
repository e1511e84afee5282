"""Findings on claims, templates, classes, slices and Pods before they are applied: pure, from text to findings.

    files --nodes--> data with places --context--> claims, classes, Pods, known devices --rules--> findings --fixes--> files

Each family of rules is a module with a table and a function (see `engine`); each rule is documented in docs/lint.md with
a bad and a good example, which tests run. Selectors are not only looked at but tried, on every known model of GPU or on
the slices that are given along.
"""

from dra_driver.lint.engine import RULES, UNREADABLE, lint, lint_objects
from dra_driver.lint.finding import SEVERITIES, Finding, Rule, Severity
from dra_driver.lint.fixes import Judge, fix
from dra_driver.lint.surroundings import Census, Surroundings

__all__ = [
    "RULES",
    "SEVERITIES",
    "UNREADABLE",
    "Census",
    "Finding",
    "Judge",
    "Rule",
    "Severity",
    "Surroundings",
    "fix",
    "lint",
    "lint_objects",
]
