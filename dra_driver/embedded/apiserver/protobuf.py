"""Bodies in Kubernetes' protobuf encoding, for what kubectl sends in no other.

`kubectl create namespace`, `create secret` and `drain` know no other way when it is refused. Their few small
messages are declared here, with the numbers of k8s.io/api's generated.proto; what is not declared is passed over.
Answers are always JSON, which all clients accept.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message

from dra_driver.embedded.apiserver import status

_MAGIC = b"k8s\x00"
# By message, its fields by number: name and type, which is one of the messages, or of those below. A type is
# followed by `[]` for a list, by `{}` for a map from strings, and by `?` where 0 is not the same as nothing.
_MESSAGES: Mapping[str, Mapping[int, str]] = {
    "Unknown": {1: "typeMeta TypeMeta", 2: "raw bytes"},
    "TypeMeta": {1: "apiVersion string", 2: "kind string"},
    "ObjectMeta": {
        1: "name string",
        2: "generateName string",
        3: "namespace string",
        11: "labels string{}",
        12: "annotations string{}",
        14: "finalizers string[]",
    },
    "Preconditions": {1: "uid string", 2: "resourceVersion string"},
    "DeleteOptions": {
        # int64 in Kubernetes, but MessageToDict makes strings of those.
        1: "gracePeriodSeconds int32?",
        2: "preconditions Preconditions",
        4: "propagationPolicy string",
        5: "dryRun string[]",
    },
    "Namespace": {1: "metadata ObjectMeta"},
    "Secret": {1: "metadata ObjectMeta", 2: "data bytes{}", 3: "type string", 4: "stringData string{}"},
    "Eviction": {1: "metadata ObjectMeta", 2: "deleteOptions DeleteOptions"},
}
_KINDS = frozenset({"Namespace", "Secret", "DeleteOptions", "Eviction"})
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES, "int32": _Field.TYPE_INT32}


def decode(body: bytes) -> Any:
    """An object as JSON would have carried it; 415 for kinds whose messages are not known here."""
    if not body.startswith(_MAGIC):
        raise status.bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        unknown = _message("Unknown", body[len(_MAGIC) :])
        kind = unknown.typeMeta.kind  # type: ignore[attr-defined]
        if kind not in _KINDS:
            raise status.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        type_meta = MessageToDict(unknown.typeMeta)  # type: ignore[attr-defined]
        return {**type_meta, **MessageToDict(_message(kind, unknown.raw))}  # type: ignore[attr-defined]
    except DecodeError as error:
        raise status.bad_request("unable to decode the protobuf message") from error


def _message(name: str, data: bytes) -> Message:
    message: Message = _CLASSES[name].FromString(data)
    return message


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="embedded.proto", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, text in fields.items():
            _add_field(message, number, *text.split())
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, declared: str) -> None:
    kind = declared.rstrip("[]{}?")
    field = message.field.add(name=name, json_name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if declared.endswith("{}"):
        entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry", options={"map_entry": True})
        _add_field(entry, 1, "key", "string")
        _add_field(entry, 2, "value", kind)
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{message.name}.{entry.name}"
    elif kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{kind}"
    if declared.endswith(("{}", "[]")):
        field.label = _Field.LABEL_REPEATED
    if declared.endswith("?"):
        field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


_CLASSES = message_factory.GetMessages([_file()], descriptor_pool.DescriptorPool())
