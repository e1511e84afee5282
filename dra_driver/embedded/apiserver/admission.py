"""Admission: calling the webhooks that ValidatingWebhookConfiguration objects register.

Done as far as a validating webhook of resource.k8s.io objects needs it: rules by operation, group, version,
resource and scope; namespace and object selectors; match conditions; failurePolicy. A rule for another version
than the request's matches too (matchPolicy Equivalent), and the object is sent in the version of the rule.
Webhooks are called one after the other, see `calling`.
"""

import functools
import uuid
from typing import Any

from dra_driver.cel import EvaluationError, Program
from dra_driver.embedded.apiserver import status
from dra_driver.embedded.apiserver.calling import Caller, WebhookError
from dra_driver.embedded.apiserver.conditions import environment
from dra_driver.embedded.apiserver.kinds import NAMESPACE, WEBHOOK, Kind
from dra_driver.embedded.apiserver.options import DeleteOptions, WriteOptions
from dra_driver.embedded.apiserver.storage import Storage

Object = dict[str, Any]


class Admission:
    """Holds writes against all registered webhooks."""

    def __init__(self, storage: Storage, caller: Caller) -> None:
        self._storage = storage
        self._caller = caller

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
        states = [state["metadata"] for state in (obj, old) if state is not None]
        for configuration in configurations:
            for webhook in configuration.obj.get("webhooks") or []:
                served = self._matching_version(webhook, operation, kind, version, states)
                if served is not None:
                    request = _request(operation, kind, served, obj, old, dry_run=options.dry_run)
                    self._ask(webhook, request, options)

    def _ask(self, webhook: Object, request: Object, options: WriteOptions | DeleteOptions) -> None:
        name = webhook["name"]
        try:
            if not _meets_conditions(webhook, request):
                return
            response = self._caller.call(webhook, request)
        except EvaluationError as error:
            if webhook.get("failurePolicy") == "Ignore":
                return
            text = f'admission webhook "{name}" denied the request: {error}'
            raise status.StatusError(403, "Forbidden", text) from error
        except WebhookError as error:
            if webhook.get("failurePolicy") == "Ignore":
                return
            text = f'Internal error occurred: failed calling webhook "{name}": {error}'
            raise status.StatusError(
                500, "InternalError", text, {"causes": [{"message": str(error)}]}
            ) from error
        if isinstance(options, WriteOptions):
            options.warnings.extend(response.get("warnings") or [])
        if not response.get("allowed"):
            raise _denial(name, response.get("status") or {})

    def _matching_version(
        self, webhook: Object, operation: str, kind: Kind, version: str, states: list[Object]
    ) -> str | None:
        """The version in which `webhook` wants to see the object, None if it does not care for it.

        `states` are the metadata of the object as it would be and as it is: either may have the labels.
        """
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
        selector = webhook.get("objectSelector")
        if matched is None or not any(_selects(selector, state.get("labels")) for state in states):
            return None
        namespace = states[0].get("namespace")
        if namespace is None and kind is not NAMESPACE:
            return matched
        home = self._storage.get(NAMESPACE, ("", namespace or states[0].get("name", "")))
        labels = home.obj["metadata"].get("labels") if home else states[0].get("labels")
        return matched if _selects(webhook.get("namespaceSelector"), labels) else None


def _meets_conditions(webhook: Object, request: Object) -> bool:
    """Whether every condition is true; one that is false decides, whatever another fails with."""
    failed: EvaluationError | None = None
    values = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
    for condition in webhook.get("matchConditions") or []:
        try:
            if _program(condition["expression"]).evaluate(values) is not True:
                return False
        except EvaluationError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return True


@functools.lru_cache(maxsize=64)
def _program(expression: str) -> Program:
    return environment().compile(expression)


def _denial(name: str, result: Object) -> status.StatusError:
    text = f'admission webhook "{name}" denied the request'
    if result.get("message") or result.get("reason"):
        text += f": {result.get('message') or result.get('reason')}"
    else:
        text += " without explanation"
    code, reason = result.get("code") or 403, result.get("reason") or "Forbidden"
    return status.StatusError(code, reason, text, result.get("details"))


def _has(wanted: list[str] | None, value: str) -> bool:
    return bool(wanted) and ("*" in wanted or value in wanted)  # type: ignore[operator]


def _selects(selector: Object | None, labels: dict[str, str] | None) -> bool:
    """metav1.LabelSelector: empty matches everything."""
    labels, selector = labels or {}, selector or {}
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        _holds(term, labels) for term in selector.get("matchExpressions") or ()
    )


def _holds(term: Object, labels: dict[str, str]) -> bool:
    key, values = term["key"], term.get("values") or ()
    held = {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }
    return held.get(term["operator"], False)


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
        "object": obj and kind.served(obj, version),
        "oldObject": old and kind.served(old, version),
        "dryRun": dry_run,
    }
    if metadata.get("namespace"):
        request["namespace"] = metadata["namespace"]
    return request
