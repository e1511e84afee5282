"""What containers can read of their devices: the device metadata files of KEP-5304.

A container finds a file for each request of its claims, at a path made of names that the Pod's author knows. A file is
a stream of JSON objects, one for each version of the format, newest first; a reader takes the first that it knows.
It holds the attributes that the device was published with, so a program may read its PCI address or NVLink clique
instead of asking NVML.

All is made from the record, so files that are gone can be written again without the API server. They never change while
their claim is prepared, so their generation is always 1.
"""

from typing import Any

from dra_driver.cdi.spec import Mount
from dra_driver.errors import ClaimError
from dra_driver.prepare.claim import Allocation
from dra_driver.prepare.record import Record, RecordedDevice
from dra_driver.resource import names
from dra_driver.strictjson import compact

_VERSIONS = ("v1beta1", "v1alpha1")
_CONTAINER_DIRECTORY = "/var/run/kubernetes.io/dra-device-attributes"
_MOUNT_OPTIONS = ("ro", "nosuid", "nodev", "bind")


def check_names(allocation: Allocation) -> None:
    """ClaimError where a name that becomes part of a path, or of a CDI name, is none that the API server lets through."""
    for what, name, syntax in (
        *(("a request", result.base_request, names.label) for result in allocation.results),
        *(("a share", result.share_id, names.label) for result in allocation.results if result.share_id),
    ):
        if syntax(name):
            raise ClaimError(f"{name[:64]!r} cannot be the name of {what} that is prepared; delete the claim")


def is_pod_claim_name(text: object) -> bool:
    """Whether an annotation's value is the name of a Pod's claim: anybody can write annotations."""
    return isinstance(text, str) and not names.label(text)


def documents(record: Record, driver_name: str) -> dict[str, bytes]:
    """The file of each request, by the request's base name."""
    return {
        request: _stream(record, driver_name, request)
        for request in dict.fromkeys(name for device in record.devices for name in device.requests)
    }


def mount(record: Record, driver_name: str, request: str, host_path: str) -> Mount:
    """Where a container finds the file of a request, which the host has at `host_path`."""
    kind, name = "resourceclaims", record.ref.name
    if record.pod_claim_name is not None:
        kind, name = "resourceclaimtemplates", record.pod_claim_name
    path = f"{_CONTAINER_DIRECTORY}/{kind}/{name}/{request}/{driver_name}-metadata.json"
    return Mount(host_path, path, _MOUNT_OPTIONS)


def _stream(record: Record, driver_name: str, request: str) -> bytes:
    devices = [device for device in record.devices if request in device.requests]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for device in devices:
        by_name.setdefault(_full_name(device, request), []).append(_device(device, driver_name))
    body: dict[str, Any] = {
        "kind": "DeviceMetadata",
        "metadata": {
            "name": record.ref.name,
            "namespace": record.ref.namespace,
            "uid": record.ref.uid,
            "generation": 1,
        },
    }
    if record.pod_claim_name is not None:
        body["podClaimName"] = record.pod_claim_name
    body["requests"] = [{"name": name, "devices": entries} for name, entries in by_name.items()]
    fields = compact(body).removeprefix("{")  # the same in all versions
    lines = (f'{{"apiVersion":"metadata.resource.k8s.io/{version}",{fields}\n' for version in _VERSIONS)
    return "".join(lines).encode()


def _full_name(device: RecordedDevice, request: str) -> str:
    """The request with the alternative that was chosen, "req/sub", if it had any."""
    return next((name for name in device.subrequests if name.startswith(f"{request}/")), request)


def _device(recorded: RecordedDevice, driver_name: str) -> dict[str, Any]:
    attributes = recorded.device.published.get("attributes", {})
    if recorded.partition is not None:  # unknown when the device was published
        attributes = attributes | {"uuid": {"string": recorded.partition.uuid}}
    if recorded.memory is not None:
        enforced = recorded.setting is not None and recorded.setting.exclusive  # by the MPS server
        attributes = attributes | {
            "consumedMemory": {"int": recorded.memory},
            "consumedMemoryEnforced": {"bool": enforced},
        }
    body: dict[str, Any] = {"driver": driver_name, "pool": recorded.pool, "name": recorded.name}
    return body | {"attributes": attributes} if attributes else body
