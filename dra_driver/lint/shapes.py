"""Shapes of another version or of another level: what copying from old examples, and a slip of indentation, make."""

from collections.abc import Iterator
from typing import Any

from dra_driver.lint import layout
from dra_driver.lint.context import Context
from dra_driver.lint.finding import Edit, Finding, Rule
from dra_driver.lint.manifests import Manifest, as_list, as_map
from dra_driver.resource.shapes import DEVICE_FIELDS, EXACT_REQUEST_FIELDS

VERSION_SHAPE = Rule(
    "version-shape",
    "error",
    "Fields of another API version",
    "In `resource.k8s.io/v1` (and v1beta2) `deviceClassName`, `selectors` and `count` stand under `exactly`; in v1beta1 they "
    "stand in the request itself. In a slice, v1beta1 has `basic` around what v1 has in the device. The API server refuses "
    "a mixture as unknown fields.",
)
SELECTOR_LEVEL = Rule(
    "selector-level",
    "error",
    "`cel` and `expression` at the wrong level",
    "`expression` stands inside `cel`, two columns further right. Beside it, the API server refuses it as an unknown field.",
)
OLD_CLAIM_SOURCE = Rule(
    "old-claim-source",
    "error",
    "A Pod's claim with `source`",
    "Until Kubernetes 1.30 an entry of `spec.resourceClaims` had a field `source`. Since then the names stand in the entry "
    "itself, and the API server refuses, or drops, the old form.",
)
DUPLICATE_KEY = Rule(
    "duplicate-key",
    "error",
    "A key is there twice",
    "YAML readers take the last one without a word, so one of two settings is silently lost.",
)
RULES = (VERSION_SHAPE, SELECTOR_LEVEL, OLD_CLAIM_SOURCE, DUPLICATE_KEY)


def check(context: Context) -> Iterator[Finding]:
    for manifest in context.manifests:
        if manifest.is_resource:
            yield from _check_versions(context, manifest)
            yield from _check_selectors(context, manifest)
    for pods in context.pods:
        for entry in pods.claims:
            if pods.manifest.has(f"{entry.path}.source"):
                yield _old_source(context, pods.manifest, entry.path)
    yield from _duplicates(context)


def _requests(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    spec, path = as_map(manifest.object.get("spec")), "spec"
    if manifest.kind == "ResourceClaimTemplate":
        spec, path = as_map(spec.get("spec")), "spec.spec"
    if manifest.kind in {"ResourceClaim", "ResourceClaimTemplate"}:
        for position, request in enumerate(as_list(as_map(spec.get("devices")).get("requests"))):
            if isinstance(request, dict):
                yield f"{path}.devices.requests[{position}]", request


def _check_versions(context: Context, manifest: Manifest) -> Iterator[Finding]:
    flat = manifest.version == "v1beta1"
    for path, request in _requests(manifest):
        loose = [name for name in request if name in EXACT_REQUEST_FIELDS]
        if flat and "exactly" in request:
            message = f"exactly is not a field of {manifest.api_version}"
            yield _versioned(context, manifest, f"{path}.exactly", message)
        elif not flat and loose:
            listed = ", ".join(loose)
            message = (
                f"{listed} {'stands' if len(loose) == 1 else 'stand'} under exactly in {manifest.api_version}"
            )
            node, edits = manifest.node_at(path), None
            if node is not None and not {"exactly", "firstAvailable"} & set(request):
                edits = layout.gather(manifest.file, node, loose, "exactly")
            yield context.finding(
                VERSION_SHAPE,
                manifest,
                f"{path}.{loose[0]}",
                message,
                fix=f"put it under exactly: {{{listed}}}",
                edits=edits or (),
            )
    if manifest.kind == "ResourceSlice":
        yield from _check_devices(context, manifest, flat=flat)


def _check_devices(context: Context, manifest: Manifest, *, flat: bool) -> Iterator[Finding]:
    spec = as_map(manifest.object.get("spec"))
    for position, device in enumerate(map(as_map, as_list(spec.get("devices")))):
        path = f"spec.devices[{position}]"
        loose = [name for name in device if name in DEVICE_FIELDS]
        if not flat and "basic" in device:
            message = f"basic is not a field of {manifest.api_version}"
            yield _versioned(context, manifest, f"{path}.basic", message)
        elif flat and loose:
            message = f"{', '.join(loose)} stand under basic in {manifest.api_version}"
            yield _versioned(context, manifest, f"{path}.{loose[0]}", message)


def _versioned(context: Context, manifest: Manifest, path: str, message: str) -> Finding:
    """Both versions are possible answers, so nothing is edited."""
    version = "v1" if manifest.version == "v1beta1" else "v1beta1"
    return context.finding(
        VERSION_SHAPE,
        manifest,
        path,
        message,
        fix=f"that is the shape of resource.k8s.io/{version}: change apiVersion, or the shape",
    )


def _check_selectors(context: Context, manifest: Manifest) -> Iterator[Finding]:
    for path, entry in _selector_lists(manifest):
        for position, selector in enumerate(as_list(entry.get("selectors"))):
            where = f"{path}.selectors[{position}]".removeprefix(".")
            if isinstance(selector, dict):
                yield from _check_level(context, manifest, where, selector)


def _selector_lists(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    if manifest.kind == "DeviceClass":
        spec = manifest.object.get("spec")
        if isinstance(spec, dict):
            yield "spec", spec
    for path, request in _requests(manifest):
        if isinstance(request.get("exactly"), dict):
            yield f"{path}.exactly", request["exactly"]
        yield path, request
        for position, alternative in enumerate(as_list(request.get("firstAvailable"))):
            if isinstance(alternative, dict):
                yield f"{path}.firstAvailable[{position}]", alternative


def _check_level(
    context: Context, manifest: Manifest, path: str, selector: dict[str, Any]
) -> Iterator[Finding]:
    node = manifest.node_at(path)
    cel, beside = selector.get("cel"), "expression" in selector
    edits: tuple[Edit, ...] | None = None
    if beside and cel is None:
        if node is not None and "cel" in selector:
            edits = layout.nest(manifest.file, node, "expression", "cel")
        elif node is not None:
            edits = layout.gather(manifest.file, node, ["expression"], "cel")
        message = "expression stands beside cel, not inside it" if "cel" in selector else "cel is missing"
    elif isinstance(cel, str):
        edits = None if node is None else layout.push_down(manifest.file, node, "cel", "expression")
        message = "cel is a mapping, and the expression stands inside it"
    elif beside:
        message = "expression stands beside cel, which has one already"
    else:
        return
    at = f"{path}.expression" if beside else f"{path}.cel"
    yield context.finding(SELECTOR_LEVEL, manifest, at, message, fix=_snippet(selector), edits=edits or ())


def _snippet(selector: dict[str, Any]) -> str:
    """The selector as it should be written."""
    text = selector.get("expression", selector.get("cel"))
    shown = " ".join(text.split()) if isinstance(text, str) else "..."
    return f"write\n- cel:\n    expression: >-\n      {shown}"


def _old_source(context: Context, manifest: Manifest, path: str) -> Finding:
    node = manifest.node_at(path)
    source = as_map(None if node is None else node.value.get("source"))
    names = [name for name in source if isinstance(source[name], str)]
    edits: tuple[Edit, ...] | None = None
    if node is not None and len(source) == 1 and not set(source) & set(node.entries):
        edits = layout.lift(manifest.file, node, "source")
    fix = f"write {names[0]}: {source[names[0]]} in the entry itself" if names else None
    message = "source is what entries had until Kubernetes 1.30"
    return context.finding(OLD_CLAIM_SOURCE, manifest, f"{path}.source", message, fix=fix, edits=edits or ())


def _duplicates(context: Context) -> Iterator[Finding]:
    for file in context.files:
        for name, key in file.duplicates:
            message = f"the key {name} is there twice"
            yield Finding(
                DUPLICATE_KEY.code, DUPLICATE_KEY.severity, file.name, key.line, key.column, "", message
            )
