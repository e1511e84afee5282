"""Pods, nodes and workloads of files: typed as an API server types them, so that what reads them need not look twice."""

from typing import Any

from dra_driver.embedded.apiserver import schema
from dra_driver.embedded.apiserver.status import StatusError
from dra_driver.errors import UsageError
from dra_driver.resource.workloads import WORKLOADS, Workload

Object = dict[str, Any]

_CORE = frozenset({"Pod", "Node", "Namespace", "Event"})


def core_object(obj: Object, source: str) -> Object | None:
    """The object in the API's types, without what the API does not know; None for kinds of no interest.

    UsageError where a value is of a wrong type, or one that is needed is missing.
    """
    key = str(obj.get("apiVersion")), str(obj.get("kind"))
    if key[0] == "v1" and key[1] in _CORE:
        return _decoded(obj, key[1], f"{source}: {key[1]} {name_in(obj)}")
    if key in WORKLOADS:
        return _workload(obj, WORKLOADS[key], f"{source}: {key[1]} {name_in(obj)}")
    return None


def name_in(obj: Object) -> str:
    """An object's name, for messages; the object may have any shape."""
    metadata = obj.get("metadata")
    return str(metadata.get("name") or "without a name") if isinstance(metadata, dict) else "without a name"


def _decoded(obj: Object, kind: str, what: str) -> Object:
    definition = f"io.k8s.api.core.v1.{kind}"
    try:
        value: Object = schema.decode(obj, definition, "v1").value
    except StatusError as error:
        raise UsageError(f"{what}: {str(error).partition(': ')[2] or error}") from error
    _require(value, schema.resolve({"$ref": definition}), what, "")
    if not value.get("metadata", {}).get("name"):
        raise UsageError(f"{what}: metadata.name is missing")
    if kind == "Pod":
        _require_pod(value, what)
    return value


def _require_pod(pod: Object, what: str) -> None:
    if not pod.get("spec", {}).get("containers"):
        raise UsageError(f"{what}: spec.containers is missing")
    for index, entry in enumerate(pod["spec"].get("resourceClaims", ())):
        named = [entry.get(field) for field in ("resourceClaimName", "resourceClaimTemplateName")]
        if sum(1 for name in named if name) != 1:
            raise UsageError(
                f"{what}: spec.resourceClaims[{index}] must name a resourceClaimName or a"
                " resourceClaimTemplateName, and not both"
            )


def _require(value: Any, node: Any, what: str, path: str) -> None:
    """Refuse an object without a field that its schema requires."""
    node = schema.resolve(node)
    if isinstance(value, list):
        for index, item in enumerate(value):
            _require(item, node.get("items"), what, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name in node.get("required", ()):
            if name not in value and "properties" in node:
                raise UsageError(f"{what}: {f'{path}.{name}'.lstrip('.')} is missing")
        for name, item in value.items():
            _require(item, schema.child(node, name), what, f"{path}.{name}")


def _workload(obj: Object, workload: Workload, what: str) -> Object:
    """Any workload as a Pod template, decoded, and how many Pods there are to be; None for one on each node."""
    template, count = workload.template_of(obj), workload.count_of(obj)
    if not isinstance(template, dict):
        raise UsageError(f"{what}: {workload.template} is missing")
    if count is None and workload.count is not None:
        count = 1
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
        raise UsageError(f"{what}: {workload.count} is no number of Pods")
    own, inner = (
        one if isinstance(one, dict) else {} for one in (obj.get("metadata"), template.get("metadata"))
    )
    names = {key: own[key] for key in ("name", "namespace") if key in own}
    pod = _decoded({**template, "metadata": {**inner, **names}}, "Pod", what)
    return {**obj, "metadata": pod["metadata"], "spec": {"template": pod, "count": count}}
