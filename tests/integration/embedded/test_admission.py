"""Validating webhooks: registered as objects, called over HTTP and HTTPS."""

import base64
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.apiserver import ApiServer
from dra_driver.kube.client import Client
from dra_driver.kube.errors import ForbiddenError, InvalidError, ServerError
from dra_driver.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from dra_driver.kube.resources import VALIDATING_WEBHOOK_CONFIGURATIONS as WEBHOOKS

Object = dict[str, Any]
Make = Callable[..., Object]


class Webhook:
    """A webhook server: `response` is what it answers with, `seen` what it was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.response: Object = {"allowed": True}
        self.seen: list[Object] = []
        self.asked = threading.Event()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.seen.append(review["request"])
                webhook.asked.set()
                response = {"uid": review["request"]["uid"], **webhook.response}
                body = json.dumps({**review, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.server.server_address[1]}/validate"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    yield webhook
    webhook.close()


def configuration(url: str, **changes: Any) -> Object:
    rule = {
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1"],
        "resources": ["resourceclaims"],
    }
    hook = {
        "name": "claims.gpu.nvidia.com",
        "clientConfig": {"url": url},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "gpu"}, "webhooks": [{**hook, **changes}]}


def test_a_webhook_is_asked_with_the_object_and_its_predecessor(
    client: Client, webhook: Webhook, claim: Make
) -> None:
    client.create(WEBHOOKS, configuration(webhook.url))

    client.create(RESOURCE_CLAIMS, claim())
    client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace="team")
    client.create(NODES, {"metadata": {"name": "not-asked"}})

    created, updated = webhook.seen
    assert (created["operation"], created["namespace"], created["name"]) == ("CREATE", "team", "c")
    assert created["resource"] == {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"}
    assert created["object"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert created["oldObject"] is None
    assert updated["oldObject"]["metadata"].get("labels") is None
    assert updated["object"]["metadata"]["labels"] == {"a": "b"}


def test_a_webhooks_no_is_the_answer(client: Client, webhook: Webhook, claim: Make) -> None:
    client.create(WEBHOOKS, configuration(webhook.url))
    webhook.response = {"allowed": False, "status": {"message": "count is too large", "code": 403}}

    with pytest.raises(ForbiddenError) as caught:
        client.create(RESOURCE_CLAIMS, claim())

    text = 'admission webhook "claims.gpu.nvidia.com" denied the request: count is too large'
    assert text in str(caught.value)
    assert client.list(RESOURCE_CLAIMS)["items"] == []


def test_a_webhook_that_is_away_refuses_or_is_ignored_as_it_says(client: Client, claim: Make) -> None:
    client.create(WEBHOOKS, configuration("http://127.0.0.1:1/"))

    with pytest.raises(ServerError, match="failed calling webhook"):
        client.create(RESOURCE_CLAIMS, claim())
    ignored = configuration("http://127.0.0.1:1/", failurePolicy="Ignore")["webhooks"]
    client.patch(WEBHOOKS, "gpu", {"webhooks": ignored})
    assert client.create(RESOURCE_CLAIMS, claim())


def test_namespaces_and_objects_are_selected_by_label(client: Client, webhook: Webhook, claim: Make) -> None:
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
    labelled = {"matchExpressions": [{"key": "checked", "operator": "Exists"}]}
    client.create(WEBHOOKS, configuration(webhook.url, namespaceSelector=elsewhere))
    client.create(RESOURCE_CLAIMS, claim("a"))
    assert webhook.seen == []

    client.patch(
        WEBHOOKS, "gpu", {"webhooks": configuration(webhook.url, objectSelector=labelled)["webhooks"]}
    )
    client.create(RESOURCE_CLAIMS, claim("b"))
    client.create(RESOURCE_CLAIMS, claim("c", labels={"checked": "yes"}))
    client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": None}}, namespace="team")
    client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"other": "yes"}}}, namespace="team")
    # Its label is why it is asked, also about its loss.
    assert [(request["name"], request["operation"]) for request in webhook.seen] == [
        ("c", "CREATE"),
        ("c", "UPDATE"),
    ]


def test_match_conditions_decide_whether_a_webhook_is_asked(
    client: Client, webhook: Webhook, claim: Make
) -> None:
    ours = "object.spec.devices.requests.exists(r, r.exactly.deviceClassName == 'gpu.nvidia.com')"
    conditions = [{"name": "ours", "expression": ours}]
    client.create(WEBHOOKS, configuration(webhook.url, matchConditions=conditions))
    other = claim("other")
    other["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "net.example.com"

    client.create(RESOURCE_CLAIMS, other)
    client.create(RESOURCE_CLAIMS, claim("ours"))

    assert [request["name"] for request in webhook.seen] == ["ours"]


def test_a_condition_that_fails_refuses_or_is_ignored_as_the_policy_says(
    client: Client, webhook: Webhook, claim: Make
) -> None:
    conditions = [{"name": "broken", "expression": "object.nowhere == 1"}]
    client.create(WEBHOOKS, configuration(webhook.url, matchConditions=conditions))
    with pytest.raises(ForbiddenError, match="no such key: nowhere"):
        client.create(RESOURCE_CLAIMS, claim())

    ignoring = configuration(webhook.url, matchConditions=conditions, failurePolicy="Ignore")
    client.patch(WEBHOOKS, "gpu", {"webhooks": ignoring["webhooks"]})

    assert client.create(RESOURCE_CLAIMS, claim())
    assert webhook.seen == []


def test_a_false_condition_wins_over_one_that_fails(client: Client, webhook: Webhook, claim: Make) -> None:
    expressions = {"broken": "object.nowhere == 1", "false": "request.operation == 'DELETE'"}
    conditions = [{"name": name, "expression": text} for name, text in expressions.items()]
    client.create(WEBHOOKS, configuration(webhook.url, matchConditions=conditions))

    assert client.create(RESOURCE_CLAIMS, claim())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clientConfig": {}}, "exactly one of url or service"),
        ({"matchConditions": [{"name": "x", "expression": "object."}]}, "Syntax error"),
        ({"matchConditions": [{"name": "x", "expression": "1 + 1"}]}, "must evaluate to bool"),
        ({"matchConditions": [{"name": "x", "expression": "device.driver == ''"}]}, "undeclared reference"),
        ({"admissionReviewVersions": ["v1beta1"]}, "must include at least one of v1"),
    ],
    ids=["no address", "no CEL", "no condition", "unknown variable", "version"],
)
def test_a_webhook_that_could_never_be_asked_is_refused_at_registration(
    client: Client, changes: Object, message: str
) -> None:
    with pytest.raises(InvalidError, match=message):
        client.create(WEBHOOKS, configuration("http://x/", **changes))


def test_an_object_is_sent_in_the_version_of_the_rule(client: Client, webhook: Webhook, claim: Make) -> None:
    hook = configuration(webhook.url)
    hook["webhooks"][0]["rules"][0]["apiVersions"] = ["v1beta1"]
    client.create(WEBHOOKS, hook)

    client.create(RESOURCE_CLAIMS, claim())

    (request,) = webhook.seen
    assert request["object"]["apiVersion"] == "resource.k8s.io/v1beta1"
    assert request["object"]["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu.nvidia.com"


def test_garbage_that_a_webhook_keeps_is_collected_at_its_next_change(
    client: Client, webhook: Webhook, claim: Make, pod: Make, until: Callable[..., Any]
) -> None:
    owner = client.create(PODS, pod())["metadata"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["uid"]}
    client.create(RESOURCE_CLAIMS, claim(ownerReferences=[reference]))
    hook = configuration(webhook.url)
    hook["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
    webhook.response = {"allowed": False, "status": {"reason": "BadRequest", "code": 400}}
    client.create(WEBHOOKS, hook)
    client.delete(PODS, "p", namespace="team")
    assert webhook.asked.wait(90)

    client.delete(WEBHOOKS, "gpu")
    client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace="team")

    assert until(RESOURCE_CLAIMS, "c", lambda found: found is None) is None


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[Webhook, str]]:
    """A webhook with a certificate for an address and a Service, and the bundle to check it with."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    names = "subjectAltName=IP:127.0.0.1,DNS:webhook.dra-driver.svc"
    request += ["-nodes", "-days", "1", "-subj", "/CN=webhook", "-addext", names]
    subprocess.run([*request, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    webhook = Webhook(context)
    yield webhook, base64.b64encode(certificate.read_bytes()).decode()
    webhook.close()


needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs openssl to make a certificate"
)


@needs_openssl
def test_a_tls_webhook_is_checked_against_its_ca_bundle(
    client: Client, claim: Make, tls: tuple[Webhook, str]
) -> None:
    webhook, bundle = tls
    client.create(WEBHOOKS, configuration("", clientConfig={"url": webhook.url, "caBundle": bundle}))
    client.create(RESOURCE_CLAIMS, claim("trusted"))
    client.patch(WEBHOOKS, "gpu", {"webhooks": configuration(webhook.url)["webhooks"]})

    with pytest.raises(ServerError, match="certificate verify failed"):
        client.create(RESOURCE_CLAIMS, claim("untrusted"))
    assert [request["name"] for request in webhook.seen] == ["trusted"]


@needs_openssl
def test_a_service_is_called_where_it_leads_and_under_its_name(
    server: ApiServer, client: Client, claim: Make, tls: tuple[Webhook, str]
) -> None:
    webhook, bundle = tls
    service = {"service": {"namespace": "dra-driver", "name": "webhook"}, "caBundle": bundle}
    client.create(WEBHOOKS, configuration("", clientConfig=service))
    with pytest.raises(ServerError, match="service dra-driver/webhook not found"):
        client.create(RESOURCE_CLAIMS, claim())

    server.services["dra-driver", "webhook"] = ("127.0.0.1", webhook.server.server_address[1])

    assert client.create(RESOURCE_CLAIMS, claim())
