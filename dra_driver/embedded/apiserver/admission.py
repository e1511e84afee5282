"""Admission: calling the webhooks that ValidatingWebhookConfiguration objects register.

Done as far as a validating webhook of resource.k8s.io objects needs it: rules by operation, group, version,
resource and scope; namespace and object selectors; failurePolicy; timeouts; caBundle; warnings. Only by URL:
there are no Services here. A rule for another version than the request's matches too (matchPolicy Equivalent),
and the object is sent in the version of the rule. Webhooks are called one after the other.
"""

import base64
import http.client
import json
import ssl
import uuid
from typing import Any
from urllib.parse import urlsplit

from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.kinds import NAMESPACE, WEBHOOK, Kind
from dra_driver.embedded.apiserver.options import DeleteOptions, WriteOptions
from dra_driver.embedded.apiserver.storage import Storage

Object = dict[str, Any]


class WebhookError(Exception):
    """A webhook did not answer, or not with an AdmissionReview."""


class Admission:
    """Holds writes against all registered webhooks."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def review(
        self,
        operation: str,
        kind: Kind,
        version: str,
        obj: Object | None,
        old: Object | None,
        options: WriteOptions | DeleteOptions,
    ) -> None:
        """Ask every webhook that matches; raises StatusError where one says no, or fails and must not."""
        if kind is WEBHOOK:
            return  # as in the real server: nobody may lock themselves out
        configurations, _ = self._storage.items(WEBHOOK)
        for configuration in configurations:
            for webhook in configuration.obj.get("webhooks") or []:
                served = self._matching_version(webhook, operation, kind, version, obj or old or {})
                if served is not None:
                    request = _request(operation, kind, served, obj, old, dry_run=options.dry_run)
                    _ask(webhook, request, options)

    def _matching_version(
        self, webhook: Object, operation: str, kind: Kind, version: str, obj: Object
    ) -> str | None:
        """The version in which `webhook` wants to see the object, None if it does not care for it."""
        matched = None
        for rule in webhook.get("rules") or []:
            if not (
                _has(rule.get("operations"), operation)
                and _has(rule.get("apiGroups"), kind.resource.group)
                and _has(rule.get("resources"), kind.resource.plural)
                and rule.get("scope", "*") in {"*", "Namespaced" if kind.resource.namespaced else "Cluster"}
            ):
                continue
            wanted = rule.get("apiVersions")
            candidates = (version, *kind.versions)
            matched = matched or next((found for found in candidates if _has(wanted, found)), None)
        if matched is None or not _selects(webhook.get("objectSelector"), obj["metadata"].get("labels")):
            return None
        namespace = obj["metadata"].get("namespace")
        if namespace is None and kind is not NAMESPACE:
            return matched
        home = self._storage.get(NAMESPACE, ("", namespace or obj["metadata"].get("name", "")))
        labels = home.obj["metadata"].get("labels") if home else obj["metadata"].get("labels")
        return matched if _selects(webhook.get("namespaceSelector"), labels) else None


def _has(wanted: list[str] | None, value: str) -> bool:
    return bool(wanted) and ("*" in wanted or value in wanted)  # type: ignore[operator]


def _selects(selector: Object | None, labels: dict[str, str] | None) -> bool:
    """metav1.LabelSelector: empty matches everything."""
    labels = labels or {}
    selector = selector or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or []:
        key, operator, values = term["key"], term["operator"], term.get("values") or []
        held = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not held.get(operator, False):
            return False
    return True


def _request(
    operation: str, kind: Kind, version: str, obj: Object | None, old: Object | None, *, dry_run: bool
) -> Object:
    resource = kind.resource
    metadata = (obj or old or {})["metadata"]
    group_kind = {"group": resource.group, "version": version, "kind": resource.kind}
    group_resource = {"group": resource.group, "version": version, "resource": resource.plural}
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": group_kind,
        "resource": group_resource,
        "requestKind": group_kind,
        "requestResource": group_resource,
        "name": metadata.get("name", ""),
        "operation": operation,
        "userInfo": {"username": "embedded", "groups": ["system:authenticated"]},
        "object": obj and {**obj, "apiVersion": kind.api_version(version)},
        "oldObject": old and {**old, "apiVersion": kind.api_version(version)},
        "dryRun": dry_run,
    }
    if metadata.get("namespace"):
        request["namespace"] = metadata["namespace"]
    return request


def _ask(webhook: Object, request: Object, options: WriteOptions | DeleteOptions) -> None:
    name = webhook["name"]
    try:
        response = _call(webhook, request)
    except WebhookError as error:
        if webhook.get("failurePolicy") == "Ignore":
            return
        text = f'Internal error occurred: failed calling webhook "{name}": {error}'
        raise status.StatusError(500, "InternalError", text, {"causes": [{"message": str(error)}]}) from error
    if isinstance(options, WriteOptions):
        options.warnings.extend(response.get("warnings") or [])
    if response.get("allowed"):
        return
    result = response.get("status") or {}
    text = f'admission webhook "{name}" denied the request'
    if result.get("message") or result.get("reason"):
        text += f": {result.get('message') or result.get('reason')}"
    else:
        text += " without explanation"
    code = result.get("code") or 403
    raise status.StatusError(code, result.get("reason") or "Forbidden", text, result.get("details"))


def _call(webhook: Object, request: Object) -> Object:
    """Send the AdmissionReview and return its response; WebhookError says why there is none."""
    client = webhook["clientConfig"]
    url = urlsplit(client["url"])
    timeout = webhook.get("timeoutSeconds", 10)
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        authority = base64.b64decode(client.get("caBundle") or "").decode()
        context = ssl.create_default_context(cadata=authority or None)
        connection = http.client.HTTPSConnection(url.netloc, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(url.netloc, timeout=timeout)
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    path = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
    try:
        connection.request("POST", path, json.dumps(review), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise WebhookError(f'failed to call webhook: Post "{client["url"]}": {error}') from error
    finally:
        connection.close()
    if answer.status != 200:
        raise WebhookError(f"failed to call webhook: an error on the server with status {answer.status}")
    try:
        response: Object = json.loads(body)["response"]
    except (ValueError, KeyError, TypeError) as error:
        raise WebhookError(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"
        ) from error
    if not isinstance(response, dict) or response.get("uid") != request["uid"]:
        raise WebhookError(f'expected response.uid="{request["uid"]}"')
    return response
