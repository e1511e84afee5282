"""The roles in deploy/ against what the processes really ask of the API server, as told by a tap between them."""

import contextlib
import importlib.util
import re
import socket
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from dra_driver.cli.simulated_nodes import nodes
from dra_driver.cli.worlds import packaged_classes
from dra_driver.embedded.apiserver import paths
from dra_driver.embedded.cluster import Cluster, PluginProcess
from dra_driver.kube.resources import (
    DEVICE_CLASSES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)

ROOT = Path(__file__).parents[2]
_LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/\S+) HTTP/1\.1\r\n")  # bodies end without a new line
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Call(NamedTuple):
    """A request as RBAC sees it."""

    verb: str
    group: str
    resource: str  # with its subresource
    name: str | None  # None of collections and of what is created


class Tap(socketserver.ThreadingTCPServer):
    """Passes bytes on to an API server, and keeps those that clients send."""

    daemon_threads = True

    def __init__(self, server: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.upstream = (str(urlsplit(server).hostname), int(urlsplit(server).port or 0))
        self.sent: list[bytearray] = []  # by connection

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def kubeconfig(self, of: Path) -> Path:
        """A copy that leads here."""
        config = yaml.safe_load(of.read_text())
        config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{self.server_address[1]}"
        path = of.with_name(f"tapped-{self.server_address[1]}")
        path.write_text(yaml.safe_dump(config))
        return path

    def calls(self) -> set[Call]:
        return {
            _call(method.decode(), path.decode())
            for sent in self.sent
            for method, path in _LINE.findall(bytes(sent))
        }


class _Passing(socketserver.BaseRequestHandler):
    server: Tap

    def handle(self) -> None:
        sent = bytearray()
        self.server.sent.append(sent)
        with socket.create_connection(self.server.upstream) as upstream:
            back = threading.Thread(target=_pass, args=(upstream, self.request), daemon=True)
            back.start()
            _pass(self.request, upstream, sent)
            back.join()


def _pass(source: socket.socket, sink: socket.socket, keep: bytearray | None = None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if keep is not None:
                keep += data
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _call(method: str, path: str) -> Call:
    url = urlsplit(path)
    target = paths.parse(url.path)
    assert target is not None, path
    resource = target.kind.resource
    if method == "GET":
        watches = "watch" in parse_qs(url.query)
        verb = "get" if target.name else "watch" if watches else "list"
    else:
        verb = _VERBS[method]
    full = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    return Call(verb, resource.group, full, target.name)


def _allows(rule: Any, call: Call) -> bool:
    return (
        call.group in rule["apiGroups"]
        and call.resource in rule["resources"]
        and call.verb in rule["verbs"]
        and ("resourceNames" not in rule or call.name in rule["resourceNames"])
    )


def rules(*names: str, components: tuple[str, ...] = ()) -> list[Any]:
    """Of the roles of these names, as deploy/ is rendered."""
    spec = importlib.util.spec_from_file_location("manifests", ROOT / "scripts" / "manifests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        rule
        for manifest in module.render(*components)
        if manifest["kind"] in {"Role", "ClusterRole"} and manifest["metadata"]["name"] in names
        for rule in manifest["rules"]
    ]


def refused(calls: set[Call], allowed: list[Any]) -> set[Call]:
    return {call for call in calls if not any(_allows(rule, call) for rule in allowed)}


def unused(calls: set[Call], allowed: list[Any]) -> set[tuple[str, str]]:
    """Rights (resource, verb) that no call made use of."""
    return {
        (resource, verb)
        for rule in allowed
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if not any(_allows({**rule, "resources": [resource], "verbs": [verb]}, call) for call in calls)
    }


def wait(check: Callable[[], Any]) -> Any:
    for _ in range(4500):
        if found := check():
            return found
        threading.Event().wait(0.02)
    pytest.fail("it has not come to that")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="dra-") as directory, Cluster(Path(directory)) as cluster:
        for name in ("dra-driver", "team"):
            cluster.client.create(NAMESPACES, {"metadata": {"name": name}})
        for one in packaged_classes():
            cluster.client.create(DEVICE_CLASSES, one)
        yield cluster


def wants(cluster: Cluster, name: str, **exactly: Any) -> None:
    """A Pod with a claim, both of this name."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", **exactly}}
    metadata = {"name": name, "namespace": "team"}
    cluster.client.create(
        RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
    )
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    entry = {"name": "gpu", "resourceClaimName": name}
    cluster.client.create(
        PODS, {"metadata": metadata, "spec": {"containers": [container], "resourceClaims": [entry]}}
    )


def test_the_node_plugin_may_do_all_that_it_does_and_next_to_nothing_else(cluster: Cluster) -> None:
    with Tap(cluster.server.url) as tap:
        flags = [
            f"--kubeconfig={tap.kubeconfig(cluster.kubeconfig)}",
            "--mig=dynamic",
            "--rescan-seconds=0.2",
        ]
        cluster.add_node("n1", "dgx-h100", *flags)
        wait(lambda: cluster.client.list(RESOURCE_SLICES)["items"])
        wants(cluster, "mig", deviceClassName="mig.nvidia.com")
        wait(lambda: ("patch", "resourceclaims/status") in {call[::2] for call in tap.calls()})
        cluster.client.delete(
            RESOURCE_SLICES, cluster.client.list(RESOURCE_SLICES)["items"][0]["metadata"]["name"]
        )
        wait(lambda: cluster.client.list(RESOURCE_SLICES)["items"])
        allowed = rules("dra-driver-kubelet-plugin")
        rare = {
            "get",
            "update",
            "delete",
        }  # of slices: when others wrote them, when devices change, when there are fewer
        expected = {
            *(("resourceslices", verb) for verb in rare),
            ("resourceclaims/driver", "associated-node:patch"),  # asked by the API server, not by a path
        }
        wait(lambda: unused(tap.calls(), allowed) <= expected)
        calls = tap.calls()

    assert refused(calls, allowed) == set()


def test_the_controller_may_do_all_that_it_does_and_next_to_nothing_else(cluster: Cluster) -> None:
    names = ("dra-driver-controller", "controller", "dra-driver-controller-taints")
    allowed = rules(*names, components=("taint-pools",))
    expected = {  # to be unused
        *(
            (kind, "get")
            for kind in ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses")
        ),
        *((kind, "get") for kind in ("nodes", "namespaces", "pods")),
        *(("events", verb) for verb in ("get", "patch")),  # once an Event is told again
        ("secrets", "update"),  # once the certificate is renewed
        *(("devicetaintrules", verb) for verb in ("create", "delete")),  # once a pool has no driver
    }
    client = cluster.client
    _, configuration = yaml.safe_load_all((ROOT / "deploy" / "webhook.yaml").read_text())
    client.create(VALIDATING_WEBHOOK_CONFIGURATIONS, configuration)
    for one in nodes("l40s=1"):
        client.create(NODES if one["kind"] == "Node" else RESOURCE_SLICES, one)
    with Tap(cluster.server.url) as tap:
        command = [sys.executable, "-m", "dra_driver", "controller", "--namespace=dra-driver", "--identity=a"]
        flags = [f"--kubeconfig={tap.kubeconfig(cluster.kubeconfig)}", "--webhook-address=127.0.0.1:0"]
        controller = PluginProcess(
            [*command, *flags, "--taint-pools-without-driver=yes"], cluster.directory / "log"
        )
        controller.start()
        try:
            wait(lambda: client.list(SECRETS)["items"] and client.list(LEASES)["items"])
            wants(cluster, "many", count=20)
            wait(lambda: client.list(EVENTS, field_selector="reason=ClaimNotSatisfiable")["items"])
            wait(lambda: ("list", "devicetaintrules") in {call[::2] for call in tap.calls()})
            wait(lambda: ("update", "leases") in {call[::2] for call in tap.calls()})
            wait(lambda: ("patch", "validatingwebhookconfigurations") in {call[::2] for call in tap.calls()})
            wait(lambda: unused(tap.calls(), allowed) <= expected)
        finally:
            controller.stop()
        calls = tap.calls()

    assert refused(calls, allowed) == set()
