"""Discovery: /version, /api, /apis and below, both as separate lists and aggregated in one answer.

kubectl asks for the aggregated form first, older clients and the Python ones walk the lists.
"""

from typing import Any

from dra_driver.embedded.apiserver.kinds import KINDS, POD, Kind, groups
from dra_driver.kube.resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
_BINDING = Resource("", "v1", "bindings", "Binding", namespaced=True)
# Of Pods: what takes a POST, and the kind it takes.
_POSTED = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}


def version() -> dict[str, str]:
    """The version that is played: objects have the fields of 1.37."""
    return {
        "major": "1",
        "minor": "37",
        "emulationMajor": "1",
        "emulationMinor": "37",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": "v1.37.0-embedded",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }


def api_versions(address: str) -> dict[str, Any]:
    """/api"""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group(name: str) -> dict[str, Any] | None:
    """A group as /apis lists it; None for one that is not served."""
    versions = groups().get(name)
    if not name or versions is None:
        return None
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group_list() -> dict[str, Any]:
    """/apis"""
    found = [group(name) for name in groups() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def _served(name: str, version: str) -> list[Kind]:
    return [kind for kind in KINDS if kind.resource.group == name and version in kind.versions]


def resource_list(name: str, version: str) -> dict[str, Any] | None:
    """/api/v1 or /apis/GROUP/VERSION; None for one that is not served."""
    if version not in groups().get(name, []):
        return None
    resources: list[dict[str, Any]] = []
    for kind in _served(name, version):
        resource = kind.resource
        entry: dict[str, Any] = {
            "name": resource.plural,
            "singularName": kind.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": _VERBS,
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        if kind.has_status:
            below = {"name": f"{resource.plural}/status", "singularName": "", "verbs": _STATUS_VERBS}
            resources.append({**below, "namespaced": resource.namespaced, "kind": resource.kind})
        for subresource in kind.subresources:
            group_name, posted_version, posted = _POSTED[subresource]
            entry = {"name": f"{resource.plural}/{subresource}", "singularName": "", "namespaced": True}
            if group_name:
                entry |= {"group": group_name, "version": posted_version}
            resources.append({**entry, "kind": posted, "verbs": ["create"]})
    if not name:
        entry = {"name": _BINDING.plural, "singularName": "binding", "namespaced": True}
        resources.append({**entry, "kind": _BINDING.kind, "verbs": ["create"]})
    listed = f"{name}/{version}" if name else version
    resources.sort(key=lambda entry: str(entry["name"]))
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": listed, "resources": resources}


def aggregated(*, core: bool) -> dict[str, Any]:
    """Everything below /api (`core`) or /apis in one object."""
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(kind, version) for kind in _served(name, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }
        for name, versions in groups().items()
        if core is not bool(name)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(kind: Kind, version: str) -> dict[str, Any]:
    resource = kind.resource
    response = {"group": resource.group, "version": version, "kind": resource.kind}
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": response,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    below = []
    if kind.has_status:
        below.append({"subresource": "status", "responseKind": response, "verbs": _STATUS_VERBS})
    if kind is POD:
        for subresource, (group_name, posted_version, posted) in _POSTED.items():
            posted_kind = {"group": group_name, "version": posted_version, "kind": posted}
            below.append({"subresource": subresource, "responseKind": posted_kind, "verbs": ["create"]})
    return {**entry, "subresources": below} if below else entry
