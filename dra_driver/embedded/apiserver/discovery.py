"""Discovery: /version, /api, /apis and below, as the lists that every client can walk."""

from typing import Any

from dra_driver.embedded.apiserver.kinds import KINDS, groups

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
# What takes a POST below a Pod, and the group, version and kind that it takes.
_POSTED = {
    "binding": {"kind": "Binding"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
}


def version() -> dict[str, str]:
    """The version that is played: objects have the fields of 1.37."""
    return {
        "major": "1",
        "minor": "37",
        "gitVersion": "v1.37.0-embedded",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }


def api_versions() -> dict[str, Any]:
    """/api"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group(name: str) -> dict[str, Any] | None:
    """/apis/GROUP; None for one that is not served."""
    versions = groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def group_list() -> dict[str, Any]:
    """/apis"""
    found = [_group(name, versions) for name, versions in groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resource_list(name: str, version: str) -> dict[str, Any] | None:
    """/api/v1 or /apis/GROUP/VERSION; None for one that is not served."""
    if version not in groups().get(name, []):
        return None
    resources: list[dict[str, Any]] = []
    for kind in KINDS:
        resource = kind.resource
        if resource.group != name or version not in kind.versions:
            continue
        entry: dict[str, Any] = {
            "name": resource.plural,
            "singularName": kind.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": _VERBS,
        }
        more = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
        resources.append(entry | {key: names for key, names in more.items() if names})
        below = {**entry, "singularName": ""}
        if kind.has_status:
            resources.append({**below, "name": f"{resource.plural}/status", "verbs": _STATUS_VERBS})
        for subresource in kind.subresources:
            posted = {"name": f"{resource.plural}/{subresource}", "verbs": ["create"], **_POSTED[subresource]}
            resources.append({**below, **posted})
    listed = f"{name}/{version}" if name else version
    resources.sort(key=lambda entry: str(entry["name"]))
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": listed, "resources": resources}
