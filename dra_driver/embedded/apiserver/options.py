"""What a request says beside its path and body: the query parameters of metav1's options, checked."""

import re
from dataclasses import dataclass, field
from typing import Any

from dra_driver.embedded.apiserver import status

Query = dict[str, str]

_VALIDATION = ("", "Ignore", "Strict", "Warn")
_PROPAGATION = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Create-, Update- and PatchOptions. `warnings` collects what the answer's Warning headers will say."""

    manager: str = "embedded"
    field_validation: str = "Warn"
    dry_run: bool = False
    force: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Of a delete: None stands for what the request leaves open."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    orphan: bool = False
    dry_run: bool = False


def manager_of(user_agent: str) -> str:
    """The field manager of a client that names none: the first part of its User-Agent."""
    return user_agent.split("/", 1)[0][:128] or "unknown"


def write_options(query: Query, kind: str, user_agent: str, *, applies: bool = False) -> WriteOptions:
    """Read WriteOptions from `query`; `kind` is CreateOptions, UpdateOptions or PatchOptions."""
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATION:
        known = ", ".join(f'"{name}"' for name in _VALIDATION)
        raise status.invalid_options(
            kind, "fieldValidation", f'Unsupported value: "{validation}": supported values: {known}'
        )
    manager = query.get("fieldManager", "")
    if applies and not manager:
        raise status.invalid_options(kind, "fieldManager", "Required value: is required for apply patch")
    if not applies and "force" in query:
        raise status.invalid_options(kind, "force", "Forbidden: may not be specified for non-apply patch")
    return WriteOptions(
        manager=manager or manager_of(user_agent),
        field_validation=validation or "Warn",
        dry_run=_dry_run(query.get("dryRun"), kind),
        force=query.get("force") == "true",
    )


def _dry_run(value: str | None, kind: str) -> bool:
    if value not in {None, "", "All"}:
        message = f'Unsupported value: ["{value}"]: supported values: "All"'
        raise status.invalid_options(kind, "dryRun", message)
    return value == "All"


def delete_options(query: Query, body: dict[str, Any]) -> DeleteOptions:
    """Read DeleteOptions from body and query; the body wins."""
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or "Background"
    if policy not in _PROPAGATION:
        known = ", ".join(f'"{name}"' for name in (*_PROPAGATION, "nil"))
        message = f'Unsupported value: "{policy}": supported values: {known}'
        raise status.invalid_options("DeleteOptions", "propagationPolicy", message)
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = number(query, "gracePeriodSeconds")
    preconditions = body.get("preconditions") or {}
    dry_run = (body.get("dryRun") or [query.get("dryRun")])[0]
    return DeleteOptions(
        grace_seconds=grace,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        orphan=policy == "Orphan",
        dry_run=_dry_run(dry_run, "DeleteOptions"),
    )


def decimal(text: str) -> int | None:
    """A number that is not negative and fits an int64; None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def number(query: Query, name: str) -> int:
    """A numeric parameter, 0 where it is absent."""
    text = query.get(name, "")
    value = decimal(text.removeprefix("-")) if text else 0
    if value is None:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return -value if text.startswith("-") else value


def flag(query: Query, name: str) -> bool:
    """A boolean parameter; present without a value is true, as in Go's conversion."""
    return query.get(name, "false").lower() not in {"false", "0"}
