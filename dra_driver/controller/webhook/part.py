"""The webhook as a part of the controller: server, reviewer, certificates and the cluster, wired together."""

import time
from contextlib import ExitStack

import structlog

from dra_driver.controller.certificates.files import Directory
from dra_driver.controller.certificates.keeper import Keeper
from dra_driver.controller.certificates.material import Source
from dra_driver.controller.certificates.secret import SharedSecret
from dra_driver.controller.cluster import Cluster
from dra_driver.controller.config import Action
from dra_driver.controller.part import Surroundings
from dra_driver.controller.webhook import protocol
from dra_driver.controller.webhook.cluster import LiveCluster
from dra_driver.controller.webhook.metrics import WebhookMetrics
from dra_driver.controller.webhook.policy import Policy
from dra_driver.controller.webhook.protocol import Request, Verdict
from dra_driver.controller.webhook.reviewer import Reviewer
from dra_driver.controller.webhook.server import WebhookServer
from dra_driver.kube.client import Client
from dra_driver.lint import Finding
from dra_driver.process import collector

log = structlog.get_logger(__name__)

_SELECTOR = {"cel": {"expression": "device.driver == 'x'"}}
_FIRST = Request(
    "", "DeviceClass", "resource.k8s.io/v1", "CREATE", "", {"spec": {"selectors": [_SELECTOR]}}, {}
)
_LOOKUP_SECONDS = 1.0  # that an admission waits for an answer of the API server


class WebhookPart:
    """Every replica runs one."""

    name = "webhook"

    def __init__(self, surroundings: Surroundings, cluster: Cluster) -> None:
        """UnavailableError where the address is taken."""
        settings = surroundings.settings
        self._precedence = surroundings.precedence
        self._closing = ExitStack()  # undoes what was started, latest first
        lookups = Client.connect(settings.kubeconfig, timeout=_LOOKUP_SECONDS)
        self._closing.callback(lookups.close)
        self.cluster = LiveCluster(cluster, surroundings.client, lookups, settings.driver_name)
        self._policy = Policy(surroundings.config.webhook)
        self.keeper = Keeper(surroundings.client, _source(surroundings), settings.webhook_name)
        self._metrics = WebhookMetrics(surroundings.registry, self.keeper.expires)
        self._server = WebhookServer(settings.webhook_address, self.keeper.context, self.handle)
        self.port = self._server.port

    def start(self) -> None:
        collector.seldom()
        self._review(_FIRST)  # what is loaded at the first review takes a quarter of a second
        for piece in (self.cluster, self.keeper, self._server):
            self._closing.callback(piece.stop)
            piece.start()

    def stop(self) -> None:
        self._closing.close()

    def ready(self) -> None:
        self.keeper.ready()
        self.cluster.ready()

    def handle(self, body: bytes) -> bytes:
        """The answer to the body of a call; MalformedError where it is no AdmissionReview."""
        started = time.perf_counter()
        try:
            with self._precedence.request():
                request = protocol.decode(body)
                verdict, findings = self._review(request)
        except Exception:
            self._metrics.failed()
            raise
        self._metrics.observe(request, verdict, findings, time.perf_counter() - started)
        if not verdict.allowed:
            log.info("refused", kind=request.kind, namespace=request.namespace, causes=len(verdict.causes))
        return protocol.encode(request.uid, verdict)

    def _review(self, request: Request) -> tuple[Verdict, list[tuple[Finding, Action]]]:
        return Reviewer(self.cluster.asked(), self._policy).review(request)


def _source(surroundings: Surroundings) -> Source:
    settings = surroundings.settings
    service = f"{settings.webhook_service}.{settings.namespace}.svc"
    if settings.certificate_dir is not None:
        return Directory(settings.certificate_dir, service)
    names = (service, f"{service}.cluster.local")
    return SharedSecret(surroundings.client, settings.namespace, settings.certificate_secret, names)
