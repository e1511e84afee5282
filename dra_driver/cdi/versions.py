"""The versions of the CDI spec, and which is the oldest that can say what a spec contains.

Container runtimes refuse a file whole if it has an unknown `cdiVersion`, or one that is lower than its content needs; and
an older runtime refuses a newer version. So the version is never chosen: it is computed from what the spec contains (CDI
specs-go/version.go), and is as low as that allows.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")


def latest(versions: Iterable[str]) -> str:
    return max(versions, key=VERSIONS.index)


def minimum_version(body: Mapping[str, Any]) -> str:
    """The lowest `cdiVersion` that a parsed spec of valid shape may carry."""
    devices = body.get("devices") or ()
    names = (str(device.get("name", "")) for device in devices)
    versions = [
        version_of_names(str(body.get("kind", "")), names),
        *map(version_of_edits, _all_edits(body)),
    ]
    if body.get("annotations") or any(device.get("annotations") for device in devices):
        versions.append("0.6.0")
    return latest(versions)


def version_of_names(kind: str, devices: Iterable[str]) -> str:
    if "." in kind.partition("/")[2]:
        return "0.6.0"
    return "0.5.0" if any("0" <= name[:1] <= "9" for name in devices) else "0.3.0"


def version_of_edits(edits: Mapping[str, Any]) -> str:
    rdt = edits.get("intelRdt")
    if edits.get("netDevices") or (
        rdt is not None and (rdt.get("schemata") is not None or rdt.get("enableMonitoring"))
    ):
        return "1.1.0"
    if rdt is not None or edits.get("additionalGids"):
        return "0.7.0"
    if any(node.get("hostPath") for node in edits.get("deviceNodes") or ()):
        return "0.5.0"
    if any(mount.get("type") for mount in edits.get("mounts") or ()):
        return "0.4.0"
    return "0.3.0"


def _all_edits(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if body.get("containerEdits"):
        yield body["containerEdits"]
    for device in body.get("devices") or ():
        if device.get("containerEdits"):
            yield device["containerEdits"]
