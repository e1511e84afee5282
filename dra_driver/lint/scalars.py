"""Where in the file a character of a scalar's value stands: a place in an expression becomes a place for an editor.

YAML writes one text in five ways: folded, indented, quoted, escaped. The scanner walks the text as a YAML parser does and
notes for each character of the value where it came from. What it read is compared with what the parser read; where
they differ (an escape that folds lines in some new way), the answer is None, and messages point at the whole scalar.
"""

import re

from dra_driver.lint.nodes import Node

_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_CODES = {"x": 2, "u": 4, "U": 8}
_HEADER = re.compile(r"[|>][-+0-9]*[^\n]*\n")
_BREAK = re.compile(r"[ \t]*(?:\r\n|\n)")

Pieces = list[tuple[str, int]]
"""Characters of the value, each with its offset in the file."""


def offsets(text: str, node: Node) -> list[int] | None:
    """The offset in `text` of each character of the scalar `node`, and of the place behind the last."""
    if not isinstance(node.value, str):
        return None
    pieces = _block(text, node) if node.style in {"|", ">"} else _flow(text, node)
    if "".join(character for character, _ in pieces) != node.value:
        return None
    return [*(offset for _, offset in pieces), pieces[-1][1] + 1 if pieces else node.start]


def is_verbatim(text: str, node: Node, start: int, end: int) -> bool:
    """Whether the characters from `start` to `end` of the value are written in the file as they are."""
    found = offsets(text, node)
    if found is None or not isinstance(node.value, str):
        return False
    return text[found[start] : found[start] + end - start] == node.value[start:end]


def _flow(text: str, node: Node) -> Pieces:
    """Plain and quoted scalars: a single line break is a blank, further ones are line breaks."""
    quote = node.style
    at, end = node.start + len(quote), node.end - len(quote)
    pieces: Pieces = []
    while at < end:
        if at_break := _BREAK.match(text, at, end):
            at = _fold(text, at_break.end(), end, pieces, at)
        elif quote == "'" and text.startswith("''", at):
            pieces.append(("'", at))
            at += 2
        elif quote == '"' and text[at] == "\\":
            at = _escape(text, at, end, pieces)
        else:
            pieces.append((text[at], at))
            at += 1
    return pieces


def _fold(text: str, at: int, end: int, pieces: Pieces, first: int) -> int:
    """Read the line breaks that follow one; the offset of the next character."""
    breaks = 0
    while following := _BREAK.match(text, at, end):
        breaks, at = breaks + 1, following.end()
    while at < end and text[at] in " \t":
        at += 1
    pieces += [("\n", at)] * breaks if breaks else [(" ", first)]
    return at


def _escape(text: str, at: int, end: int, pieces: Pieces) -> int:
    kind = text[at + 1 : at + 2]
    if folded := re.compile(r"\\(?:\r\n|\n)").match(text, at, end):
        at = folded.end()
        while following := _BREAK.match(text, at, end):
            pieces.append(("\n", at))
            at = following.end()
        while at < end and text[at] in " \t":
            at += 1
        return at
    if kind in _CODES:
        stop = at + 2 + _CODES[kind]
        pieces.append((chr(int(text[at + 2 : stop], 16)), at))
        return stop
    pieces.append((_ESCAPES.get(kind, ""), at))
    return at + 2


def _block(text: str, node: Node) -> Pieces:
    """`|` keeps lines, `>` folds those that stand at the same indentation."""
    header = _HEADER.match(text, node.start)
    if header is None:
        return []
    lines = _lines(text, header.end(), node.end)
    indent = _indent(text, lines)
    pieces: Pieces = []
    waiting: Pieces = []  # line breaks since the last line with text
    before_more_indented = True  # nothing precedes the first line, so nothing folds into it
    for start, stop in lines:
        content = start + indent
        if content >= stop and not text[start:stop].strip(" "):
            waiting.append(("\n", stop))
            continue
        more_indented = text[content] in " \t"
        if node.style == ">" and pieces and not before_more_indented and not more_indented:
            waiting = [(" ", waiting[0][1])] if len(waiting) == 1 else waiting[1:]
        pieces += waiting
        pieces += [(text[offset], offset) for offset in range(content, stop)]
        waiting, before_more_indented = [("\n", stop)], more_indented
    chomp = header[0].split("#")[0]
    if "+" in chomp:
        pieces += waiting
    elif "-" not in chomp:
        pieces += waiting[:1] if pieces else []
    return pieces


def _lines(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The lines of the body, without their breaks."""
    lines = []
    while start < end:
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        lines.append((start, stop - 1 if text[stop - 1 : stop] == "\r" else stop))
        start = stop + 1
    return lines


def _indent(text: str, lines: list[tuple[int, int]]) -> int:
    """The columns that belong to the layout: those of the first line that has text.

    An explicit indicator counts from the parent, whose column nobody knows here; lines then tell as well, except where
    the first is indented further, which shows in the comparison with the parser's value.
    """
    for start, stop in lines:
        if text[start:stop].strip(" "):
            return len(text[start:stop]) - len(text[start:stop].lstrip(" "))
    return 0
