"""Write the OpenAPI schemas that the embedded API server knows its kinds by, from the 1.37 schemas of the
development dependency kubernetes-validate: the definitions our kinds reach, without their descriptions.

With `--check`, write nothing and fail where the file differs from what would be written.
"""

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "dra_driver/embedded/apiserver/schemas.json"
PREFIX, NEW_PREFIX = "#/$defs/", "#/components/schemas/"
ROOTS = [
    *(f"io.k8s.api.core.v1.{kind}" for kind in ("Namespace", "Node", "Pod", "Event", "Binding", "Secret")),
    *(
        f"io.k8s.api.resource.v1.{kind}"
        for kind in (
            "ResourceSlice",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "DeviceClass",
            "DeviceTaintRule",
        )
    ),
    *(
        f"io.k8s.api.resource.v1beta1.{kind}"
        for kind in ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
    ),
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
]


def compact(node: Any, *, named: bool = False) -> Any:
    """A schema as OpenAPI writes it: one type instead of [type, "null"], no descriptions, no enums of GVKs.

    `named` says that the keys of `node` are names of properties, so that one called "description" stays.
    """
    if isinstance(node, list):
        return [compact(item) for item in node]
    if not isinstance(node, dict):
        return node
    if named:
        return {key: compact(value) for key, value in node.items()}
    dropped = {"description", "default", "enum", "x-kubernetes-group-version-kind", "x-kubernetes-unions"}
    short = {}
    for key, value in node.items():
        if key in dropped:
            continue
        if key == "$ref":
            short[key] = value.replace(PREFIX, NEW_PREFIX)
        elif key == "type" and isinstance(value, list):
            short[key] = next(item for item in value if item != "null")
        else:
            short[key] = compact(value, named=key == "properties")
    return short


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*(references(item) for item in node))
    if not isinstance(node, dict):
        return set()
    found = set().union(*(references(value) for value in node.values()))
    if isinstance(node.get("$ref"), str):
        found.add(node["$ref"].removeprefix(NEW_PREFIX))
    return found


def render() -> str:
    source = resources.files("kubernetes_validate") / "kubernetes-json-schema/v1.37.0-local/_definitions.json"
    definitions = json.loads(source.read_text())["$defs"]
    found: dict[str, Any] = {}
    todo = set(ROOTS)
    while todo:
        name = todo.pop()
        found[name] = compact(definitions[name])
        todo |= references(found[name]) - found.keys()
    lines = [
        f" {json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in sorted(found.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    text = render()
    if TARGET.exists() and TARGET.read_text() == text:
        return 0
    if sys.argv[1:] == ["--check"]:
        print(f"{TARGET.name}: differs from what is generated; run scripts/embedded_schemas.py")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
