"""Our tables of types against the published OpenAPI of 1.37."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from dra_driver.resource import shapes
from dra_driver.resource.decoding import ListOf, MapOf, Shape, Struct

_SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / "v1.37.0-local"
_ROOTS = [
    shapes.RESOURCE_SLICE,
    shapes.RESOURCE_CLAIM,
    shapes.RESOURCE_CLAIM_TEMPLATE,
    shapes.DEVICE_CLASS,
    shapes.DEVICE_TAINT_RULE,
]


@pytest.fixture(scope="module")
def fields() -> dict[str, set[str]]:
    """The fields of each type of 1.37, by its short name."""
    text = (_SCHEMAS / "_definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    wanted = ("io.k8s.api.resource.v1.", "io.k8s.api.core.v1.Node", "io.k8s.apimachinery.pkg.apis.meta.v1.")
    return {
        name.rpartition(".")[2]: set(body.get("properties", ()))
        for name, body in definitions.items()
        if name.startswith(wanted)
    }


def _structs(shape: Shape) -> list[Struct]:
    match shape:
        case ListOf(item) | MapOf(item):
            return _structs(item)
        case Struct(_, fields):
            return [shape, *(inner for value in fields.values() for inner in _structs(value))]
        case _:
            return []


@pytest.mark.parametrize("root", _ROOTS, ids=lambda root: root.name)
def test_every_type_has_just_the_fields_of_1_37(root: Struct, fields: dict[str, set[str]]) -> None:
    for struct in _structs(root):
        assert (struct.name, fields[struct.name]) == (struct.name, set(struct.fields))
