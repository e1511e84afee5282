"""JSON as people get it past an API server: with keys that are given twice, or nested thousands deep.

A decoder keeps the last of two values for one key, and what the author wrote first is gone without a word. That is as
wrong as an unknown field where decoding is strict; but who decodes does not know yet which part of an object will be
read strictly. So such an object comes back as a `Repeated`, which is the same dict for everybody who does not ask.

An API server keeps opaque parameters of any depth that 10 KiB have room for. Python's decoder gives up near a thousand
or, from 3.13, near ten thousand, and whoever walks through what it has decoded gives up before it does: one such claim
would make the list that it is in unreadable, and hide all others. Nothing that anybody reads lies deep, so what is
deeper than `DEEPEST` comes back as the text `TOO_DEEP`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

compact = json.JSONEncoder(separators=(",", ":")).encode
"""JSON without spaces, by one encoder for all: json.dumps makes one for each call, in the middle of a Prepare."""


class Repeated(dict[str, Any]):
    """An object with keys that it has more than once; the last value stands."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.keys_given_twice = tuple(name for name in self if names.count(name) > 1)


DEEPEST, TOO_DEEP = 100, "(nested too deep)"
_SHALLOW = 25  # more than any object of Kubernetes has outside of what is opaque
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NEITHER_BRACKET_NOR_QUOTE = bytes(sorted(set(range(256)) - set(b'[]{}"')))


def loads(data: str | bytes) -> Any:
    """As `loads_plain`, with repeated keys still seen."""
    return _loads(data, _object)


def loads_plain(data: str | bytes) -> Any:
    """As json.loads, at a third more of its time, for any depth."""
    return _loads(data, None)


def _loads(data: str | bytes, hook: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None) -> Any:
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    return json.loads(data if _is_shallow(raw) else _cut(raw), object_pairs_hook=hook)


def _is_shallow(data: bytes) -> bool:
    """Whether `data` surely is JSON of few levels, if it is JSON; far faster to tell than by a walk over its tokens.

    All but brackets goes, then pairs of brackets go, which takes a level each time. Of small objects, such as the claim of
    a Prepare, a count is enough.
    """
    if data.count(b"{") + data.count(b"[") <= DEEPEST:
        return True
    brackets = data.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = brackets.translate(_ONE_KIND, _NEITHER_BRACKET_NOR_QUOTE).replace(b'""', b"")
    if b'"' in brackets:  # texts with brackets in them
        brackets = b"".join(brackets.split(b'"')[::2])
    for _ in range(_SHALLOW):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"")
    return not brackets


def _cut(data: bytes) -> bytes:
    """`data` with a text in place of all that is deeper than `DEEPEST`."""
    kept: list[bytes] = []
    depth = end = 0  # `end`: of what was left out last
    for token in _TOKEN.finditer(data):
        if token[0] in {b"[", b"{"}:
            depth += 1
            if depth == DEEPEST + 1:
                kept += [data[end : token.start()], json.dumps(TOO_DEEP).encode()]
        elif token[0] in {b"]", b"}"}:
            if depth == DEEPEST + 1:
                end = token.end()
            depth -= 1
    return b"".join([*kept, data[end:]])


def repeated(content: object) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Where in `content` an object has a key twice: the object's place, and the key. For any depth."""
    waiting: list[tuple[tuple[int | str, ...], object]] = [((), content)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, Repeated):
            yield from ((place, name) for name in value.keys_given_twice)
        if isinstance(value, Mapping):
            waiting += [((*place, name), child) for name, child in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, number), child) for number, child in enumerate(value)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else Repeated(pairs)
