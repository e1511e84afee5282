"""The parts of the controller, started in order, and stopped in the opposite one."""

from contextlib import ExitStack
from queue import SimpleQueue

import structlog
from prometheus_client import CollectorRegistry, disable_created_metrics

from dra_driver.controller import config
from dra_driver.controller.cluster import Cluster
from dra_driver.controller.explainer.part import Explainer
from dra_driver.controller.flags import Settings
from dra_driver.controller.part import Part, Surroundings
from dra_driver.controller.webhook.part import WebhookPart
from dra_driver.kube.client import Client
from dra_driver.process.probes import ProbeServer

log = structlog.get_logger(__name__)


class Controller:
    """One replica: `start`, `run` until asked to stop, and `stop` in any case."""

    def __init__(self, settings: Settings) -> None:
        """UsageError says which setting is wrong; nothing runs yet."""
        disable_created_metrics()
        self._settings = settings
        self._closing = ExitStack()  # undoes what was started, latest first
        chosen = config.DEFAULT if settings.config is None else config.load(settings.config)
        client = Client.connect(settings.kubeconfig)
        self._closing.callback(client.close)
        surroundings = Surroundings(settings, chosen, client, CollectorRegistry(auto_describe=True))
        self._registry = surroundings.registry
        self.parts = make_parts(surroundings)

    def start(self) -> None:
        """UnavailableError where an address is taken. Probes come first, so that they can tell what is awaited."""
        if self._settings.metrics_address is not None:
            probes = ProbeServer(
                self._settings.metrics_address, self._registry, healthy=lambda: None, ready=self._ready
            )
            self._closing.callback(probes.stop)
            probes.start()
        for part in self.parts:
            self._closing.callback(part.stop)
            part.start()

    def run(self, stop: "SimpleQueue[int]") -> None:
        log.info(
            "controller started", driver=self._settings.driver_name, parts=[part.name for part in self.parts]
        )
        log.info("asked to stop", signal=stop.get())

    def stop(self) -> None:
        self._closing.close()

    def _ready(self) -> None:
        for part in self.parts:
            part.ready()


def make_parts(surroundings: Surroundings) -> list[Part]:
    """Every part, in the order of start: what others read comes first."""
    cluster = Cluster(surroundings.client, namespace=surroundings.settings.namespace)
    return [cluster, WebhookPart(surroundings, cluster), Explainer(surroundings, cluster)]
