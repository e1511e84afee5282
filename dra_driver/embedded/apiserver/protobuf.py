"""Bodies in Kubernetes' protobuf encoding, for the few kinds that kubectl creates with typed commands.

`kubectl create namespace|configmap|secret|serviceaccount` and `kubectl drain` send protobuf only, and know no
other way when it is refused. Their small messages are read here, field by field from the wire; k8s.io/api has their numbers in
generated.proto. Answers are always JSON, which all clients accept.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dra_driver.embedded.apiserver import status

_MAGIC = b"k8s\x00"
_TEXT, _BYTES, _INTEGER = "text", "bytes", "integer"


@dataclass(frozen=True, slots=True)
class _Message:
    """A message's fields by number: name, and what it is; `maps` and `lists` name those that repeat."""

    fields: dict[int, tuple[str, "str | _Message"]]
    maps: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()


_OWNER = _Message(
    {
        1: ("kind", _TEXT),
        3: ("name", _TEXT),
        4: ("uid", _TEXT),
        5: ("apiVersion", _TEXT),
        6: ("controller", _INTEGER),
        7: ("blockOwnerDeletion", _INTEGER),
    }
)
_METADATA = _Message(
    {
        1: ("name", _TEXT),
        2: ("generateName", _TEXT),
        3: ("namespace", _TEXT),
        11: ("labels", _TEXT),
        12: ("annotations", _TEXT),
        13: ("ownerReferences", _OWNER),
        14: ("finalizers", _TEXT),
    },
    maps=frozenset({"labels", "annotations"}),
    lists=frozenset({"ownerReferences", "finalizers"}),
)
_DELETE_OPTIONS = _Message(
    {
        1: ("gracePeriodSeconds", _INTEGER),
        2: ("preconditions", _Message({1: ("uid", _TEXT), 2: ("resourceVersion", _TEXT)})),
        4: ("propagationPolicy", _TEXT),
        5: ("dryRun", _TEXT),
    },
    lists=frozenset({"dryRun"}),
)
_KINDS = {
    "Namespace": _Message({1: ("metadata", _METADATA)}),
    "ConfigMap": _Message(
        {
            1: ("metadata", _METADATA),
            2: ("data", _TEXT),
            3: ("binaryData", _BYTES),
            4: ("immutable", _INTEGER),
        },
        maps=frozenset({"data", "binaryData"}),
    ),
    "Secret": _Message(
        {
            1: ("metadata", _METADATA),
            2: ("data", _BYTES),
            3: ("type", _TEXT),
            4: ("stringData", _TEXT),
            5: ("immutable", _INTEGER),
        },
        maps=frozenset({"data", "stringData"}),
    ),
    "ServiceAccount": _Message({1: ("metadata", _METADATA)}),
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": _Message({1: ("metadata", _METADATA), 2: ("deleteOptions", _DELETE_OPTIONS)}),
}
_BOOLEANS = frozenset({"controller", "blockOwnerDeletion", "immutable"})


def decode(body: bytes) -> Any:
    """An object as JSON would have carried it; 415 for kinds whose messages are not known here."""
    if not body.startswith(_MAGIC):
        raise status.bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        unknown = dict(_read(body[len(_MAGIC) :]))
        type_meta = dict(_read(_bytes(unknown[1])))
        kind, api_version = _bytes(type_meta[2]).decode(), _bytes(type_meta[1]).decode()
        if kind not in _KINDS:
            raise status.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        return {"kind": kind, "apiVersion": api_version, **_message(_bytes(unknown[2]), _KINDS[kind])}
    except (IndexError, KeyError, UnicodeDecodeError, TypeError) as error:
        raise status.bad_request("unable to decode the protobuf message") from error


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number stands where a message belongs")
    return value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _read(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: their numbers, with integers or bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if wire_type == 2:
            length, position = _varint(data, position)
        else:
            length = {1: 8, 5: 4}[wire_type]
        if position + length > len(data):
            raise IndexError(position)
        yield tag >> 3, data[position : position + length]
        position += length


def _message(data: bytes, message: _Message) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, raw in _read(data):
        if number not in message.fields:
            continue
        name, kind = message.fields[number]
        if name in message.maps:
            entry = dict(_read(_bytes(raw)))
            key = _bytes(entry.get(1, b"")).decode()
            result.setdefault(name, {})[key] = _scalar(name, entry.get(2, b""), kind)
        elif name in message.lists:
            result.setdefault(name, []).append(_scalar(name, raw, kind))
        else:
            value = _scalar(name, raw, kind)
            if value != "":  # Go writes them, and means that they are not set
                result[name] = value
    return result


def _scalar(name: str, raw: int | bytes, kind: "str | _Message") -> Any:
    if isinstance(raw, int):
        return bool(raw) if name in _BOOLEANS else raw
    if isinstance(kind, _Message):
        return _message(raw, kind)
    return base64.b64encode(raw).decode() if kind == _BYTES else raw.decode()
