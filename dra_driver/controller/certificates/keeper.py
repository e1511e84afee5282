"""Keeps the webhook's TLS and the API server's trust up to date, in a thread of its own.

Every half minute it looks: nothing here is urgent, a watch would need more rights, and what somebody undid is repaired
all the same. caBundle is written before another certificate than the first is shown, and only for one that can be shown.
Whatever fails is tried again, and the certificate that there is stays in use.
"""

import base64
import ssl
import threading
import time
from typing import Any

import structlog

from dra_driver.controller.certificates.material import Material, Source
from dra_driver.errors import ApiError, UnavailableError, one_line
from dra_driver.kube.backoff import Backoff
from dra_driver.kube.client import Client
from dra_driver.kube.errors import NotFoundError
from dra_driver.kube.resources import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 30.0
_STOP_SECONDS = 5.0


class Keeper:
    """`context` is what the server asks for at each connection."""

    def __init__(
        self, client: Client, source: Source, configuration: str, *, look_seconds: float = _LOOK_SECONDS
    ) -> None:
        """`configuration` is the name of the ValidatingWebhookConfiguration."""
        self._client = client
        self._source = source
        self._configuration = configuration
        self._look_seconds = look_seconds
        self._material: Material | None = None
        self._context: ssl.SSLContext | None = None
        self._tried = False  # to tell the API server
        self._problem = "the webhook has no certificate yet"
        self._stop = threading.Event()
        self._backoff = Backoff()
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def context(self) -> ssl.SSLContext:
        if self._context is None:
            raise UnavailableError(self._problem)
        return self._context

    def ready(self) -> None:
        """UnavailableError until there is a certificate, and the API server was told of it, or could not be."""
        self.context()
        if self.expires() <= time.time():
            raise UnavailableError(f"the webhook's certificate has expired; {self._problem}")
        if not self._tried:
            raise UnavailableError("the API server has not been told of the webhook's certificate yet")

    def expires(self) -> float:
        """Seconds since 1970; 0 while there is no certificate."""
        material = self._material
        return 0.0 if material is None else material.expires.timestamp()

    def look(self) -> None:
        """Use what the source has now. ApiError and UnavailableError: what was used stays."""
        material = self._source.read()
        context = self._context
        if context is None or material != self._material:
            context = material.context()
        if self._context is None:
            self._use(material, context)
        try:
            if material.authorities is not None:
                self._tell(material.authorities)
        finally:
            self._tried = True
        if material != self._material:
            self._use(material, context)

    def _use(self, material: Material, context: ssl.SSLContext) -> None:
        self._context, self._material = context, material
        log.info("certificate in use", expires=str(material.expires))

    def _tell(self, authorities: bytes) -> None:
        """Write caBundle where it is another."""
        bundle = base64.b64encode(authorities).decode()
        try:
            found = self._client.get(CONFIGURATIONS, self._configuration)
        except NotFoundError:
            log.warning(
                "there is no webhook configuration, so nobody calls", configuration=self._configuration
            )
            return
        stale = [hook["name"] for hook in found.get("webhooks") or [] if _bundle_of(hook) != bundle]
        if stale:
            hooks = [{"name": name, "clientConfig": {"caBundle": bundle}} for name in stale]
            self._client.patch(
                CONFIGURATIONS,
                self._configuration,
                {"webhooks": hooks},
                content_type="application/strategic-merge-patch+json",
            )
            log.info("authority told to the API server", configuration=self._configuration, webhooks=stale)

    def _run(self) -> None:
        while not self._stop.is_set():
            wait = self._look_seconds
            try:
                self.look()
                self._backoff.reset()
            except (ApiError, UnavailableError) as error:
                self._problem = one_line(error)
                wait = min(wait, self._backoff.delay(0))
                log.warning("certificate not looked at", err=self._problem)
            except Exception as error:  # whatever stands in a Secret or a file, the next look may go well
                self._problem = one_line(error)
                log.exception("certificate not looked at")
            self._stop.wait(wait)


def _bundle_of(hook: dict[str, Any]) -> str:
    return str((hook.get("clientConfig") or {}).get("caBundle") or "")
