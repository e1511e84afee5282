"""The resourceclaim controller of kube-controller-manager: the life of claims around that of Pods.

* A Pod's entry that names a template gets a claim of its own, noted in the Pod's status; where that fails,
  the Pod gets an Event with the real controller's text.
* A consumer of a claim that has ended, or is gone, is taken out of `reservedFor`; with the last one goes the
  allocation, and after it the finalizer that protected it.
* A claim made for a Pod that has ended is deleted; one of a Pod that is gone is left to the garbage collector.

It follows Pods, claims and templates, and looks at one object at a time, always at what is there rather than
at what has changed, so that a missed or doubled event does no harm. What fails is tried again after a while.
"""

import threading
from collections.abc import Callable
from typing import Any

import structlog

from dra_driver.embedded.claims import (
    FINALIZER,
    MAX_RESERVED_FOR,
    POD_CLAIM_NAME,
    claim_name,
    consumer,
    from_template,
    is_done,
    is_for,
    is_reserved_for,
    owning_pod,
)
from dra_driver.embedded.events import PodEvents
from dra_driver.embedded.pods import patch_status
from dra_driver.embedded.workqueue import WorkQueue
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError, ObjectConflictError
from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

log = structlog.get_logger(__name__)

Object = dict[str, Any]
_Key = tuple[str, str, str]  # "pod" or "claim", namespace, name

_RETRY_SECONDS, _RETRY_CAP_SECONDS = 0.2, 10.0
_POD, _CLAIM = "pod", "claim"


class TemplateError(Exception):
    """A Pod's claim cannot be made from its template; the text is that of the real controller."""


class Controllers:
    """Started by `start`, ended by `stop`; the client stays the caller's."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: WorkQueue[_Key] = WorkQueue()
        self._pods = Reflector(client, PODS, on_event=self._pod_changed)
        self._claims = Reflector(client, RESOURCE_CLAIMS, on_event=self._claim_changed)
        self._templates = Reflector(client, RESOURCE_CLAIM_TEMPLATES, on_event=self._template_changed)
        self._retries: dict[_Key, Backoff] = {}
        self._events = PodEvents(client, "resource_claim")
        self._thread = threading.Thread(target=self._run, name="controllers")

    def start(self) -> None:
        for reflector in self._reflectors():
            reflector.start()
        self._thread.start()

    def stop(self) -> None:
        self._queue.stop()
        for reflector in self._reflectors():
            reflector.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _reflectors(self) -> tuple[Reflector, ...]:
        return self._pods, self._claims, self._templates

    # What has changed, and what is to be looked at therefore

    def _pod_changed(self, event: str, pod: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        self._queue.add((_POD, namespace, pod["metadata"]["name"]))
        if event == "DELETED" or is_done(pod):
            for entry in pod["spec"].get("resourceClaims") or []:
                if name := claim_name(pod, entry):
                    self._queue.add((_CLAIM, namespace, name))
            extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
            if extended.get("resourceClaimName"):
                self._queue.add((_CLAIM, namespace, extended["resourceClaimName"]))

    def _claim_changed(self, event: str, claim: Object) -> None:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        if event != "DELETED":
            self._queue.add((_CLAIM, namespace, name))
        self._look_at_pods(namespace, lambda pod, entry: is_for(claim, pod) or claim_name(pod, entry) == name)

    def _template_changed(self, event: str, template: Object) -> None:
        if event == "DELETED":
            return
        namespace, name = template["metadata"]["namespace"], template["metadata"]["name"]
        self._look_at_pods(namespace, lambda _, entry: entry.get("resourceClaimTemplateName") == name)

    def _look_at_pods(self, namespace: str, concerns: Callable[[Object, Object], bool]) -> None:
        """Have the Pods looked at of which an entry of spec.resourceClaims `concerns` what has changed."""
        for pod in self._pods.snapshot():
            entries = pod["spec"].get("resourceClaims") or []
            if pod["metadata"]["namespace"] == namespace and any(concerns(pod, entry) for entry in entries):
                self._queue.add((_POD, namespace, pod["metadata"]["name"]))

    def _run(self) -> None:
        for reflector in self._reflectors():
            # Decisions on a half-read state would make second claims.
            while not reflector.synced.wait(0.1):
                if self._queue.stopped:
                    return
        while (key := self._queue.get()) is not None:
            what, namespace, name = key
            look: Callable[[str, str], None] = self._sync_pod if what == _POD else self._sync_claim
            try:
                look(namespace, name)
            except (ApiError, UnavailableError, TemplateError) as error:
                self._retry(key)
                if not isinstance(error, ObjectConflictError):
                    log.warning(
                        "will be tried again", what=what, namespace=namespace, name=name, err=str(error)
                    )
            except Exception:  # an object that nobody thought of must not keep all others waiting
                self._retry(key)
                log.exception("will be tried again", what=what, namespace=namespace, name=name)
            else:
                self._retries.pop(key, None)

    def _retry(self, key: _Key) -> None:
        backoff = self._retries.setdefault(key, Backoff(_RETRY_SECONDS, _RETRY_CAP_SECONDS))
        self._queue.add(key, backoff.delay())

    # Pods

    def _sync_pod(self, namespace: str, name: str) -> None:
        pod = self._pods.get(name, namespace)
        if pod is None or "deletionTimestamp" in pod["metadata"] or is_done(pod):
            return
        made: dict[str, str] = {}
        failed: TemplateError | None = None
        for entry in pod["spec"].get("resourceClaims") or []:
            try:
                if (created := self._ensure_claim(pod, entry)) is not None:
                    made[entry["name"]] = created
            except TemplateError as error:
                failed = error
                text = f"PodResourceClaim {entry['name']}: {error}"
                self._events.warning(pod, "FailedResourceClaimCreation", text)
        if made:
            noted = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
            patch_status(self._client, pod, {"resourceClaimStatuses": noted})
        if failed is not None:
            raise failed
        if pod["spec"].get("nodeName"):
            self._reserve_allocated(pod)

    def _ensure_claim(self, pod: Object, entry: Object) -> str | None:
        """The name of the claim that was made, or found, for an entry and is not noted yet."""
        if entry.get("resourceClaimTemplateName") is None:
            return None
        namespace = pod["metadata"]["namespace"]
        known = claim_name(pod, entry)
        if known is not None and (claim := self._claims.get(known, namespace)) is not None:
            if not is_for(claim, pod):
                raise TemplateError(f"resource claim {known} was not created for the pod")
            return None
        for claim in self._claims.snapshot():
            annotations = claim["metadata"].get("annotations") or {}
            if is_for(claim, pod) and annotations.get(POD_CLAIM_NAME) == entry["name"]:
                found: str = claim["metadata"]["name"]
                return found if found != known else None
        template_name = entry["resourceClaimTemplateName"]
        template = self._templates.get(template_name, namespace)
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise TemplateError(f'resource claim template "{template_name}": {missing}')
        claim = self._client.create(RESOURCE_CLAIMS, from_template(template, pod, entry))
        self._claims.adopt(claim)
        created: str = claim["metadata"]["name"]
        return created

    def _reserve_allocated(self, pod: Object) -> None:
        """Reserve what a Pod uses that came to its node past the scheduler."""
        for entry in pod["spec"].get("resourceClaims") or []:
            name = claim_name(pod, entry)
            claim = self._claims.get(name, pod["metadata"]["namespace"]) if name else None
            if claim is None or is_reserved_for(claim, pod):
                continue
            status = claim.get("status") or {}
            reserved = status.get("reservedFor") or []
            if status.get("allocation") and len(reserved) < MAX_RESERVED_FOR:
                status = {**status, "reservedFor": [*reserved, consumer(pod)]}
                self._replace_status(claim, status)

    # Claims

    def _sync_claim(self, namespace: str, name: str) -> None:
        claim = self._claims.get(name, namespace)
        if claim is None:
            return
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        valid = [entry for entry in reserved if self._is_consumer(namespace, entry)]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or [])
        deleting = "deletionTimestamp" in claim["metadata"]
        if len(valid) < len(reserved) or (protected and deleting and not valid and status.get("allocation")):
            left = {key: value for key, value in status.items() if key != "reservedFor"}
            if valid:
                left["reservedFor"] = valid
            elif protected:
                # Only what the scheduler allocated carries the finalizer, and only that is ours to free.
                left.pop("allocation", None)
            claim = self._replace_status(claim, left)
            status = claim.get("status") or {}
        if protected and not status.get("allocation") and (deleting or reserved):
            claim = self._unprotect(claim)
        if not valid and not deleting:
            self._delete_if_ended(claim)

    def _is_consumer(self, namespace: str, entry: Object) -> bool:
        """Whether a consumer still needs the claim; what is no Pod is somebody else's."""
        if entry.get("apiGroup") or entry["resource"] != "pods":
            return True
        pod = self._pods.get(entry["name"], namespace)
        if pod is None or pod["metadata"]["uid"] != entry["uid"]:
            try:
                # News of the Pod may be behind that of its claim.
                pod = self._client.get(PODS, entry["name"], namespace)
            except NotFoundError:
                return False
        return pod["metadata"]["uid"] == entry["uid"] and not is_done(pod)

    def _replace_status(self, claim: Object, status: Object) -> Object:
        changed = self._client.replace(RESOURCE_CLAIMS, {**claim, "status": status}, subresource="status")
        self._claims.adopt(changed)
        return changed

    def _unprotect(self, claim: Object) -> Object:
        metadata = dict(claim["metadata"])
        metadata["finalizers"] = [name for name in metadata["finalizers"] if name != FINALIZER]
        return self._client.replace(RESOURCE_CLAIMS, {**claim, "metadata": metadata})

    def _delete_if_ended(self, claim: Object) -> None:
        owner = owning_pod(claim)
        if owner is None:
            return
        metadata = claim["metadata"]
        pod = self._pods.get(owner["name"], metadata["namespace"])
        if pod is None or pod["metadata"]["uid"] != owner["uid"] or not is_done(pod):
            return
        try:
            self._client.delete(
                RESOURCE_CLAIMS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except NotFoundError:
            log.debug("claim is gone already", claim=metadata["name"])
