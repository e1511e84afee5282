"""Calls of webhooks: HTTPS as the real server does it, checked against caBundle, with a timeout.

By URL, or by Service: there are no Services here, but whoever starts the server may say where one would lead, and
the call then goes there under the Service's name, which the certificate must carry.
"""

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

Object = dict[str, Any]
Address = tuple[str, int]
_MAX_ANSWER_BYTES = 3 << 20


class WebhookError(Exception):
    """A webhook did not answer, or not with an AdmissionReview."""


class Caller:
    """Sends AdmissionReviews; `services` maps (namespace, name) to the address behind a Service."""

    def __init__(self, services: Mapping[tuple[str, str], Address]) -> None:
        self._services = services

    def call(self, webhook: Object, request: Object) -> Object:
        """Send the AdmissionReview and return its response; WebhookError says why there is none."""
        client = webhook["clientConfig"]
        url = client.get("url") or _service_url(client["service"])
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        target = urlsplit(url)
        path = f"{target.path or '/'}{f'?{target.query}' if target.query else ''}"
        connection = self._connection(client, url, webhook.get("timeoutSeconds", 10))
        try:
            connection.request("POST", path, json.dumps(review), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise WebhookError(f'failed to call webhook: Post "{url}": {error}') from error
        finally:
            connection.close()
        if answer.status != 200:
            raise WebhookError(f"failed to call webhook: an error on the server with status {answer.status}")
        return _response(body, request["uid"])

    def _connection(self, client: Object, url: str, timeout: float) -> http.client.HTTPConnection:
        target = urlsplit(url)
        if target.scheme != "https":
            return http.client.HTTPConnection(target.netloc, timeout=timeout)
        authority = base64.b64decode(client.get("caBundle") or "").decode()
        context = ssl.create_default_context(cadata=authority or None)
        address = None
        if "url" not in client:
            service = client["service"]
            address = self._services.get((service["namespace"], service["name"]))
            if address is None:
                where = f"{service['namespace']}/{service['name']}"
                raise WebhookError(f'failed to call webhook: Post "{url}": service {where} not found')
        return _Connection(target.hostname or "", target.port, context, timeout, address)


class _Connection(http.client.HTTPSConnection):
    """HTTPS to `host`, wherever it is: `address` stands for what a name would be looked up as."""

    def __init__(
        self, host: str, port: int | None, context: ssl.SSLContext, timeout: float, address: Address | None
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._address = address or (self.host, self.port)
        self._tls = context

    def connect(self) -> None:
        plain = socket.create_connection(self._address, self.timeout)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise


def _service_url(service: Object) -> str:
    port = service.get("port", 443)
    return (
        f"https://{service['name']}.{service['namespace']}.svc:{port}{service.get('path') or '/'}?timeout=10s"
    )


def _response(body: bytes, uid: str) -> Object:
    try:
        response: Object = json.loads(body)["response"]
    except (ValueError, KeyError, TypeError) as error:
        raise WebhookError(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview"
        ) from error
    if not isinstance(response, dict) or response.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}"')
    return response
