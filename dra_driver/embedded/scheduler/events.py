"""Events of the scheduler about Pods. One is written only when what it says is new, so there is nothing to merge."""

import uuid

import structlog

from dra_driver.embedded.claims import Object
from dra_driver.errors import ApiError, UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.events import EventType, event
from dra_driver.kube.resources import EVENTS

log = structlog.get_logger(__name__)

COMPONENT = "default-scheduler"


def write(client: Client, pod: Object, kind: EventType, reason: str, message: str) -> None:
    """A core/v1 Event; a Pod must not wait because it cannot be written, so failures are only logged."""
    metadata = pod["metadata"]
    about = {name: metadata.get(name, "") for name in ("namespace", "name", "uid", "resourceVersion")}
    body = event(
        {"apiVersion": "v1", "kind": "Pod", **about},
        reason,
        message,
        name=f"{metadata['name'][:200]}.{uuid.uuid4().hex[:16]}",
        type=kind,
        component=COMPONENT,
    )
    try:
        client.create(EVENTS, body)
    except (ApiError, UnavailableError) as error:
        log.warning(
            "event not written",
            pod=f"{metadata['namespace']}/{metadata['name']}",
            reason=reason,
            err=str(error),
        )
