"""Every rule is documented with a bad and a good example, and both are what they say."""

from pathlib import Path
from typing import Any

import pytest

from dra_driver.lint import RULES, Rule
from dra_driver.lint.pages import example, render_markdown

ROOT = Path(__file__).parents[3]
_TOO_LARGE_TO_SHOW = {"not-checked"}
_SHOWN = [pytest.param(rule, id=rule.code) for rule in RULES if rule.code not in _TOO_LARGE_TO_SHOW]


@pytest.mark.parametrize("rule", _SHOWN)
def test_the_bad_example_has_this_finding_and_no_other(check: Any, rule: Rule) -> None:
    assert {rule.code} == {finding.code for finding in check(example(rule, "bad"))}


@pytest.mark.parametrize("rule", _SHOWN)
def test_the_good_example_has_none(check: Any, rule: Rule) -> None:
    assert [] == check(example(rule, "good"))


def test_codes_are_words_with_hyphens_and_unique() -> None:
    codes = [rule.code for rule in RULES]

    assert len(codes) == len(set(codes))
    assert all(part.isalpha() and part.islower() for code in codes for part in code.split("-"))


def test_the_page_is_what_the_rules_say() -> None:
    assert render_markdown() == (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")


def test_examples_of_rules_that_are_gone_are_gone() -> None:
    folder = ROOT / "dra_driver" / "lint" / "examples"

    assert {entry.name for entry in folder.iterdir()} == {rule.code for rule in RULES} - _TOO_LARGE_TO_SHOW
