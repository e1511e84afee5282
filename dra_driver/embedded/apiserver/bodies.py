"""Bodies of requests, read: JSON, YAML, and the little protobuf that kubectl insists on."""

import json
import math
from typing import Any

import yaml

from dra_driver.embedded.apiserver import protobuf, schema, status
from dra_driver.embedded.apiserver.answers import Request


class _YamlLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: what looks like a time stays text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def decode(request: Request, kind: str | None = None) -> Any:
    """The request's body, whatever it is; refusals name the `kind` that was expected, or a patch.

    JSON is YAML too, and much faster to read.
    """
    if "protobuf" in request.content_type:
        return protobuf.decode(request.body)
    if "cbor" in request.content_type:
        raise status.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    try:
        return _json(request.body)
    except (ValueError, RecursionError) as error:
        if "yaml" not in request.content_type:
            raise _unreadable(request.body, kind) from error
    try:
        return _json(json.dumps(yaml.load(request.body, Loader=_YamlLoader)))  # noqa: S506 - a safe loader
    except (TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise _unreadable(request.body, kind) from error


def _json(text: bytes | str) -> Any:
    return json.loads(text, parse_float=_finite, parse_constant=_finite)


def _finite(text: str) -> float:
    """JSON has no NaN and no infinity, but Python's reader does."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _unreadable(body: bytes, kind: str | None) -> status.StatusError:
    fault = "unexpected end of JSON input"
    if kind is None:
        return status.bad_request(f"error decoding patch: {fault}")
    found = body[:64].decode(errors="replace") or "<empty>"
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
        f"json parse error: {fault} ({found})"
    )


def decode_typed(request: Request, definition: str) -> dict[str, Any]:
    """A body of a kind that is not stored."""
    kind = definition.rsplit(".", 1)[-1]
    body = decode(request, kind)
    if not isinstance(body, dict):
        raise _unreadable(request.body, kind)
    value: dict[str, Any] = schema.decode(body, definition, "v1").value
    return value
