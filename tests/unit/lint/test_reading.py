"""Manifests are read as kubectl reads them, and what could hurt the reader is refused with its place."""

from typing import Any

import pytest

from dra_driver.lint import lint
from dra_driver.lint.nodes import MAX_BYTES, read
from dra_driver.yamlevents import YamlError

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))


def value(text: str) -> Any:
    return read(text.encode(), "f").documents[0].value


def test_scalars_have_the_types_that_kubectl_gives_them() -> None:
    text = "[1, -0x1F, 0o17, 017, 1_000, 1e3, 1.5, yes, Off, ~, '1', 12:30, 2020-01-01, v1, !!str 1]"

    assert [
        1, -31, 15, 15, 1000, 1000.0, 1.5, True, False, None, "1", "12:30", "2020-01-01", "v1", "1",
    ] == value(text)  # fmt: skip


def test_keys_that_are_no_text_are_read_as_text() -> None:
    assert {"1": "a", "true": "b"} == value("{1: a, true: b}")


def test_anchors_aliases_and_merge_keys_are_followed() -> None:
    text = "base: &base {a: 1, b: 2}\nmore:\n  <<: *base\n  b: 3\nagain: *base\n"

    assert {"base": {"a": 1, "b": 2}, "more": {"a": 1, "b": 3}, "again": {"a": 1, "b": 2}} == {
        **value(text),
        "more": dict(sorted(value(text)["more"].items())),
    }


def test_several_documents_are_read() -> None:
    assert [1, None, 2] == [document.value for document in read(b"1\n---\n---\n2\n", "f").documents]


def test_a_byte_order_mark_shifts_nothing() -> None:
    file = read(b"\xef\xbb\xbfa: b\n", "f")

    assert (0, 1, 1) == (file.documents[0].start, file.documents[0].line, file.documents[0].column)


def test_a_key_that_is_there_twice_is_kept_for_a_finding() -> None:
    file = read(b"a: 1\nb: 2\na: 3\n", "f")

    assert [("a", 3)] == [(name, key.line) for name, key in file.duplicates]


REFUSED = {
    "a tab as indentation": (b"a:\n\tb: 1\n", 2),
    "no UTF-8": (b"a: 1\nb: \xff\n", 2),
    "a control character": (b"a: 1\nb: \x07\n", 2),
    "an unknown alias": (b"a: *b\n", 1),
    "an alias of itself": (b"&a [*a]\n", 1),
    "aliases that grow": (BOMB.encode(), None),
    "deep nesting in brackets": (b"[" * 100_000, 1),
    "deep nesting in lines": (b"".join(b" " * i + b"a:\n" for i in range(100)), 65),
    "many values": (b"[" + b"1," * 200_000 + b"]", 1),
    "a list as key": (b"? [a]\n: b\n", 1),
    "a foreign tag": (b"a: !ruby/object 1\n", 1),
    "too many bytes": (b"#" * (MAX_BYTES + 1), None),
}


@pytest.mark.parametrize(("data", "line"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_manifest_is_refused_with_its_line(data: bytes, line: int | None) -> None:
    with pytest.raises(YamlError) as caught:
        read(data, "f")

    assert line is None or caught.value.line == line
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("data", "line"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_no_manifest_is_one_finding(data: bytes, line: int | None) -> None:
    assert ["unreadable"] == [finding.code for finding in lint([("f", data)])]
