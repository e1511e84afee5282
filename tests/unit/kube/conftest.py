"""A scripted API server and clients for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dra_driver.kube.client import Client
from dra_driver.kube.endpoint import Endpoint, StaticToken
from dra_driver.kube.scripted import Reply, ScriptedServer

Serve = Callable[..., tuple[ScriptedServer, Client]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server with these answers, and a client of it; both end with the test."""
    with ExitStack() as stack:

        def start(*answers: Reply, timeout: float = 60.0) -> tuple[ScriptedServer, Client]:
            server = stack.enter_context(ScriptedServer(answers))
            client = Client(Endpoint(server.url, StaticToken()), timeout=timeout)
            stack.callback(client.close)
            return server, client

        yield start


@pytest.fixture
def tls_files() -> Path:
    return Path(__file__).parents[2] / "data" / "tls"
