"""Assigning a Pod to a node, which only a Binding may do."""

from typing import Any

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.deletion import Deletion, current
from dra_driver.embedded.apiserver.incoming import now
from dra_driver.embedded.apiserver.kinds import POD
from dra_driver.embedded.apiserver.storage import Key, Storage
from dra_driver.resource.problems import required

Object = dict[str, Any]


def bind(storage: Storage, deletion: Deletion, key: Key, binding: Object, *, dry_run: bool) -> None:
    """Do what a Binding says; StatusError where the Pod cannot be bound, or not any more."""
    target = (binding.get("target") or {}).get("name")
    if not target:
        raise status.invalid("Binding", "", key[1], [required("target.name")])

    def assign(pod: Object) -> None:
        if why := _objection(pod, (binding.get("metadata") or {}).get("uid")):
            raise status.conflict(POD.resource, key[1], why, kind="pods/binding")
        pod["spec"]["nodeName"] = target
        conditions = pod["status"].get("conditions") or []
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
        others = [found for found in conditions if found.get("type") != "PodScheduled"]
        pod["status"]["conditions"] = [*others, scheduled]

    pod = current(storage, POD, key).copy()
    if dry_run:
        assign(pod)
    else:
        deletion.modify(POD, key, assign)


def _objection(pod: Object, uid: str | None) -> str | None:
    """What speaks against binding a Pod; `uid` is that of the Pod that was meant."""
    metadata = pod["metadata"]
    if uid and uid != metadata["uid"]:
        return f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']})"
    if "deletionTimestamp" in metadata:
        return f"pod {metadata['name']} is being deleted, cannot be assigned to a host"
    if assigned := pod["spec"].get("nodeName"):
        return f'pod {metadata["name"]} is already assigned to node "{assigned}"'
    return None
