"""What is wrong with an object, in the API server's words.

A `Problem` is one field error: the path as kubectl prints it (`spec.devices.requests[0].name`) and the text that
a 1.36 API server puts behind it. Users compare these texts with what they find on the web, so they are worth
copying to the letter. `refusal` joins problems into the whole answer, for whoever plays API server.

A server looks at an object in two steps, and reports the second only when the first found nothing: decoding
(400 Bad Request: a string where a number belongs, or, under strict field validation, a field it does not know),
then validation (422 Invalid). `Problem.stage` says which step speaks.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Stage = Literal["decode", "strict", "validate"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, and what."""

    path: str  # empty where the object as a whole is meant
    message: str
    stage: Stage = "validate"

    def __str__(self) -> str:
        # Decoders name the field inside their text; validators put it in front.
        return f"{self.path}: {self.message}" if self.path and self.stage == "validate" else self.message


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an API server answers to an object with problems."""

    code: Literal[400, 422]
    reason: Literal["BadRequest", "Invalid"]
    message: str


def refusal(obj: Mapping[str, Any], problems: Sequence[Problem]) -> Refusal:
    """The answer to `obj`, which has these `problems` (at least one)."""
    kind, api_version = str(obj.get("kind", "")), str(obj.get("apiVersion", ""))
    group, _, version = api_version.rpartition("/")
    if problems[0].stage != "validate":
        hard = next((problem.message for problem in problems if problem.stage == "decode"), None)
        detail = hard or "strict decoding error: " + ", ".join(problem.message for problem in problems)
        return Refusal(
            400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {detail}'
        )
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    detail = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    metadata = obj.get("metadata")
    name = str((metadata.get("name") if isinstance(metadata, Mapping) else None) or "")
    return Refusal(422, "Invalid", f"{kind}.{group} {quoted(name)} is invalid: {detail}")


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    return f"{path}[{position}]"


def key(path: str, name: str, longest: int = 96) -> str:
    """The path of a map's entry; a name longer than `longest` (domain, slash and identifier) loses its middle."""
    if len(name) > longest:
        keep = longest - len("...")
        name = f"{name[: (keep + 1) // 2]}...{name[len(name) - keep // 2 :]}"
    return f"{path}[{name}]"


def quoted(value: object) -> str:
    """A value as field errors print it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def invalid(path: str, value: object, detail: str) -> Problem:
    return Problem(path, f"Invalid value: {quoted(value)}: {detail}")


def required(path: str, detail: str = "") -> Problem:
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def forbidden(path: str, detail: str) -> Problem:
    return Problem(path, f"Forbidden: {detail}")


def duplicate(path: str, value: object) -> Problem:
    return Problem(path, f"Duplicate value: {quoted(value)}")


def not_found(path: str, value: object) -> Problem:
    return Problem(path, f"Not found: {quoted(value)}")


def too_many(path: str, count: int, limit: int) -> Problem:
    return Problem(path, f"Too many: {count}: must have at most {limit} item{'' if limit == 1 else 's'}")


def too_long(path: str, limit: int) -> Problem:
    return Problem(path, f"Too long: may not be more than {limit} bytes")


def not_supported(path: str, value: str, supported: Iterable[str]) -> Problem:
    known = ", ".join(quoted(item) for item in sorted(supported))
    return Problem(path, f"Unsupported value: {quoted(value)}: supported values: {known}")


def duplicates(path: str, keys: Sequence[object]) -> Iterator[Problem]:
    """One problem for each key of the list at `path` that an earlier item has too."""
    seen: set[object] = set()
    for position, item in enumerate(keys):
        if item in seen:
            yield duplicate(index(path, position), item)
        seen.add(item)


def each(
    entries: Iterable[Mapping[str, Any] | None],
    path: str,
    limit: int,
    check: Callable[[Mapping[str, Any], str], Iterable[Problem]],
    *,
    unique: str | None = None,
) -> Iterator[Problem]:
    """What `check` finds in the objects of the list at `path`, and those whose field `unique` an earlier one has.

    Of a list with more than `limit` entries a server says no more than that.
    """
    found: list[Mapping[str, Any]] = [entry or {} for entry in entries]
    if len(found) > limit:
        yield too_many(path, len(found), limit)
        return
    for position, entry in enumerate(found):
        yield from check(entry, index(path, position))
    if unique is not None:
        yield from duplicates(path, [entry.get(unique) or "" for entry in found])
