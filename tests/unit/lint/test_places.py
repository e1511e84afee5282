"""A mistake inside an expression is shown where it stands in the file, however YAML wrote the expression."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra_driver.lint.nodes import read
from dra_driver.lint.scalars import offsets

HEAD = (
    "apiVersion: resource.k8s.io/v1\n"
    "kind: DeviceClass\n"
    "metadata: {name: c}\n"
    "spec:\n"
    "  selectors:\n"
    "    - cel:\n"
)
# Each is how an expression may be written; `nope` is the mistake.
WRITTEN = {
    "plain": "        expression: device.driver == 'x' && nope\n",
    "plain over lines": "        expression: device.driver == 'x' &&\n          nope\n",
    "single quotes": "        expression: 'device.driver == ''x'' && nope'\n",
    "double quotes": '        expression: "device.driver == \\"x\\" && nope"\n',
    "double quotes with escapes": '        expression: "device.driver == \\u0027x\\x27\\n&& nope"\n',
    "double quotes over lines": "        expression: \"device.driver == 'x' \\\n          && nope\"\n",
    "literal": "        expression: |\n          device.driver == 'x' &&\n          nope\n",
    "literal, stripped": "        expression: |-\n\n            device.driver == 'x' && nope\n",
    "folded": "        expression: >-\n          device.driver == 'x' &&\n            nope &&\n          true\n",
    "flow": '        {expression: "true && nope"}\n',
    "beside wide characters": "        expression: device.driver == 'äöü€😀' && nope\n",
}


def place_of_the_mistake(text: str) -> tuple[int, int]:
    before = text[: text.index("nope")]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_a_mistake_in_an_expression_has_its_line_and_column(check: Any, body: str) -> None:
    (finding,) = check(HEAD + body)

    assert "selector-does-not-compile" == finding.code
    assert place_of_the_mistake(HEAD + body) == (finding.line, finding.column)


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_windows_line_ends_change_no_place(check: Any, body: str) -> None:
    (finding,) = check((HEAD + body).replace("\n", "\r\n"))

    assert place_of_the_mistake(HEAD + body) == (finding.line, finding.column)


def test_an_explicit_indentation_that_cannot_be_told_points_at_the_whole_text(check: Any) -> None:
    (finding,) = check(HEAD + "        expression: |2\n             nope\n")

    assert (7, 21) == (finding.line, finding.column)


TEXTS = st.text(alphabet=st.sampled_from("ab '\"\\:#-\n\té|>"), max_size=40)


@given(TEXTS, st.sampled_from(["'", '"', "|", ">", None]), st.integers(20, 80))
def test_every_character_is_found_where_the_writer_put_it(text: str, style: Any, width: int) -> None:
    written = yaml.dump({"key": text}, default_style=style, width=width, allow_unicode=True)
    file = read(written.encode(), "f")
    node = file.documents[0].entries["key"]
    found = offsets(file.text, node)

    assert node.value == text
    if found is not None:
        assert len(found) == len(text) + 1
        assert sorted(found) == found
        plain = [(c, file.text[at]) for c, at in zip(text, found, strict=False) if c.isalpha()]
        assert all(there in {c, "\\"} for c, there in plain)
