"""Controllers beside an embedded API server that calls their webhook, registered as deploy/ does it."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from dra_driver.controller.flags import parse
from dra_driver.controller.process import Controller
from dra_driver.controller.webhook.part import WebhookPart
from dra_driver.embedded.apiserver import ApiServer
from dra_driver.errors import UnavailableError
from dra_driver.kube.client import Client
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)

Object = dict[str, Any]
DEPLOY = Path(__file__).parents[3] / "deploy"
NAMESPACE = "dra-driver"


class Until(Protocol):
    def __call__(self, check: Callable[[], object], seconds: float = ...) -> None: ...


class Door:
    """An API server, and the controllers at its door."""

    def __init__(self, directory: Path) -> None:
        self._closing = contextlib.ExitStack()
        self.server = self._closing.enter_context(ApiServer())
        self.kubeconfig = directory / "kubeconfig"
        self.server.write_kubeconfig(self.kubeconfig)
        self.client = Client.connect(self.kubeconfig)
        self._closing.callback(self.client.close)
        for name in (NAMESPACE, "team"):
            self.server.store.create(NAMESPACES, {"metadata": {"name": name}})
        for found in yaml.safe_load_all((DEPLOY / "deviceclasses.yaml").read_text()):
            self.server.store.create(DEVICE_CLASSES, found)

    def register(self) -> None:
        """The webhook configuration of deploy/webhook.yaml."""
        _, configuration = yaml.safe_load_all((DEPLOY / "webhook.yaml").read_text())
        self.server.store.create(VALIDATING_WEBHOOK_CONFIGURATIONS, configuration)

    def controller(self, *arguments: str) -> WebhookPart:
        """A new replica's webhook, which need not be ready yet, and which the API server calls from now on."""
        required = ["--kubeconfig", str(self.kubeconfig), "--namespace", NAMESPACE, "--identity", "a"]
        controller = Controller(parse([*required, "--webhook-address", "127.0.0.1:0", *arguments], {}))
        self._closing.callback(controller.stop)
        controller.start()
        (part,) = (part for part in controller.parts if isinstance(part, WebhookPart))
        self.server.services[NAMESPACE, "webhook"] = ("127.0.0.1", part.port)
        return part

    def close(self) -> None:
        self._closing.close()


@pytest.fixture(scope="session")
def make_door() -> Callable[[Path], Door]:
    return Door


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    yield door
    door.close()


@pytest.fixture
def webhook(door: Door, until: Until) -> WebhookPart:
    """A webhook that is ready, and called."""
    door.register()
    part = door.controller()
    until(part.ready)
    return part


@pytest.fixture(scope="session")
def until() -> Until:
    """Wait until a check raises no UnavailableError and no AssertionError any more."""

    def wait(check: Callable[[], object], seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                check()
            except (UnavailableError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                threading.Event().wait(0.02)
            else:
                return

    return wait


@pytest.fixture
def claim() -> Callable[..., Object]:
    def make(
        *expressions: str, name: str = "c", device_class: str = "gpu.nvidia.com", **devices: Any
    ) -> Object:
        selectors = [{"cel": {"expression": expression}} for expression in expressions]
        exactly = {"deviceClassName": device_class, "selectors": selectors}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}},
        }

    return make
