"""Request paths of the resource API, taken apart."""

from dataclasses import dataclass
from urllib.parse import unquote

from dra_driver.embedded.apiserver.kinds import Kind, find


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection (no name), an object, or a subresource of it."""

    kind: Kind
    version: str
    namespace: str | None
    name: str | None = None
    subresource: str | None = None

    @property
    def api_version(self) -> str:
        return self.kind.api_version(self.version)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace or "", self.name or ""


def parse(path: str) -> Target | None:
    """The target of `path`; None where nothing is served."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    # Namespaces are objects too: /namespaces/NAME and /namespaces/NAME/status are about themselves.
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    kind = find(group, version, rest[0])
    if kind is None or bool(namespace) > kind.resource.namespaced:
        return None
    return Target(kind, version, namespace, *rest[1:])
