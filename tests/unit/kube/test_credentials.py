"""Kubeconfigs, service accounts, certificates, and their renewal."""

import base64
import json
import os
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.errors import UnavailableError, UsageError
from dra_driver.kube.client import Client
from dra_driver.kube.config import from_kubeconfig, in_cluster
from dra_driver.kube.endpoint import TokenFile
from dra_driver.kube.errors import UnauthorizedError
from dra_driver.kube.resources import NODES
from dra_driver.kube.scripted import ScriptedServer, Stream, status


@pytest.fixture
def tls_server(tls_files: Path) -> Iterator[ScriptedServer]:
    """A server that asks for a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls_files / "server.crt", tls_files / "server.key")
    context.load_verify_locations(tls_files / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    with ScriptedServer(tls=context) as server:
        yield server


CONTEXT = "current-context: x\ncontexts: [{name: x, context: {cluster: k}}]\n"


def kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    body = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(body))
    return path


def ask(path: Path) -> None:
    client = Client.connect(path)
    client.get(NODES, "n")
    client.close()


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_certificates_may_be_data(tmp_path: Path, tls_files: Path, tls_server: ScriptedServer) -> None:
    user = {
        "client-certificate-data": encoded(tls_files / "client.crt"),
        "client-key-data": encoded(tls_files / "client.key"),
    }
    cluster = {"server": tls_server.url, "certificate-authority-data": encoded(tls_files / "ca.crt")}
    ask(kubeconfig(tmp_path / "config", cluster, user))
    assert len(tls_server.requests) == 1


def test_certificates_may_be_files_beside_the_kubeconfig(
    tmp_path: Path, tls_files: Path, tls_server: ScriptedServer
) -> None:
    for name in ("ca.crt", "client.crt", "client.key"):
        (tmp_path / name).write_bytes((tls_files / name).read_bytes())
    cluster = {
        "server": tls_server.url.replace("127.0.0.1", "localhost"),
        "certificate-authority": "ca.crt",
        "tls-server-name": "apiserver.test",
    }
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    ask(kubeconfig(tmp_path / "config", cluster, user))
    assert len(tls_server.requests) == 1


def test_an_unknown_authority_is_said(tmp_path: Path, tls_server: ScriptedServer) -> None:
    path = kubeconfig(tmp_path / "config", {"server": tls_server.url}, {})
    with pytest.raises(UnavailableError, match="its certificate is not trusted"):
        ask(path)


def test_verification_can_be_switched_off(
    tmp_path: Path, tls_files: Path, tls_server: ScriptedServer
) -> None:
    user = {
        "client-certificate": str(tls_files / "client.crt"),
        "client-key": str(tls_files / "client.key"),
    }
    cluster = {"server": tls_server.url, "insecure-skip-tls-verify": True}
    ask(kubeconfig(tmp_path / "config", cluster, user))
    assert len(tls_server.requests) == 1


def test_a_certificate_that_is_no_certificate_is_the_users_to_mend(tmp_path: Path) -> None:
    data = base64.b64encode(b"nonsense").decode()
    path = kubeconfig(
        tmp_path / "config", {"server": "https://localhost:1", "certificate-authority-data": data}, {}
    )
    with pytest.raises(UsageError, match="cannot use the certificates for https://localhost:1"):
        Client.connect(path)


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "port": ({"server": "http://h:port"}, {}, "'http://h:port' or its proxy is no URL"),
    "host": ({"server": "http://"}, {}, "no URL"),
    "bracket": ({"server": "https://[::1"}, {}, "no URL"),
    "server": ({"server": 5}, {}, "server of its cluster 'k' is no text"),
    "switch": (
        {"server": "https://h", "insecure-skip-tls-verify": "maybe"},
        {},
        "insecure-skip-tls-verify of its cluster 'k' is no truth value",
    ),
    "token": ({"server": "http://h"}, {"token": 5}, "token of its user 'u' is no text"),
    "exec": ({"server": "http://h"}, {"exec": "x"}, "exec of its user 'u' is no mapping"),
    "proxy": ({"server": "http://h", "proxy-url": 5}, {}, "proxy-url of its cluster 'k' is no text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_part_that_makes_no_sense_is_named(tmp_path: Path, name: str) -> None:
    cluster, user, why = WRONG[name]
    with pytest.raises(UsageError, match=re.escape(why)):
        Client.connect(kubeconfig(tmp_path / "config", cluster, user))


def test_a_kubeconfig_of_bytes_is_told_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="it is no text"):
        Client.connect(tmp_path / "config")


@pytest.mark.parametrize("token", [b"a\nb", "tök€n".encode(), b"\xff"], ids=["two lines", "letters", "bytes"])
def test_a_token_that_is_half_written_counts_as_no_answer_and_is_not_told(
    tmp_path: Path, token: bytes
) -> None:
    (tmp_path / "token").write_bytes(token)
    path = kubeconfig(tmp_path / "config", {"server": "http://localhost:1"}, {"tokenFile": "token"})
    with pytest.raises(UnavailableError, match="token") as caught:
        ask(path)
    assert token.decode(errors="replace") not in str(caught.value)


def test_plain_kubeconfigs_do_not_load_the_kubernetes_library(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"server": "http://localhost:1"}, {"token": "t"})
    code = (
        "import sys, pathlib; from dra_driver.kube.client import Client;"
        f"Client.connect(pathlib.Path({str(path)!r})); sys.exit('kubernetes' in sys.modules)"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


def test_the_token_of_a_user_is_sent(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        ask(kubeconfig(tmp_path / "config", {"server": server.url}, {"token": "secret"}))
    assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_an_exec_plugin_is_run_by_the_library(tmp_path: Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "fresh"},
    }
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", f"print({json.dumps(credential)!r})"],
            "interactiveMode": "Never",
        }
    }
    with ScriptedServer() as server:
        ask(kubeconfig(tmp_path / "config", {"server": server.url}, user))
    assert server.requests[0].headers["authorization"] == "Bearer fresh"


def test_an_exec_plugin_that_fails_is_said(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/program"}}
    path = kubeconfig(tmp_path / "config", {"server": "http://localhost:1"}, user)
    with pytest.raises(UsageError, match="exec plugin '/no/such/program' gave no credentials"):
        Client.connect(path)


def test_a_password_goes_through_the_library(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        user = {"username": "admin", "password": "pw"}
        ask(kubeconfig(tmp_path / "config", {"server": server.url}, user))
    assert server.requests[0].headers["authorization"] == "Basic YWRtaW46cHc="


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file or directory$"),
        ("[" * 3000, "it is nested too deeply"),
        ("current-context: c\ncontexts: [c]", "its contexts are no list of mappings"),
        ("current-context: c\ncontexts: [{name: c, context: x}]", "its context 'c' is no mapping"),
        ("", "it is empty"),
        ("[]", "it is no mapping"),
        ("a: [", "while parsing"),
        ("clusters: []", "no current-context"),
        ("current-context: x\ncontexts: []", "the context 'x', but contexts has none"),
        (f"{CONTEXT}clusters: [{{name: k, cluster: {{}}}}]", "it has no 'server'"),
        (f"{CONTEXT}clusters: [{{name: k, cluster: {{server: 'localhost:8080'}}}}]", "is no URL"),
    ],
)
def test_a_bad_kubeconfig_is_named_with_what_is_wrong(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=f"cannot use the kubeconfig {path}: .*{message}"):
        from_kubeconfig(path)


class TestInCluster:
    @pytest.fixture
    def account(self, tmp_path: Path, tls_files: Path) -> Path:
        (tmp_path / "token").write_text("first\n")
        (tmp_path / "ca.crt").write_bytes((tls_files / "ca.crt").read_bytes())
        return tmp_path

    def test_the_service_and_the_mounted_account_are_used(self, account: Path) -> None:
        endpoint = in_cluster(
            {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, account
        )
        assert endpoint.url == "https://[fd00::1]:443"
        assert endpoint.credentials.authorization() == "Bearer first"

    def test_outside_of_a_pod_it_says_what_to_pass(self, account: Path) -> None:
        with pytest.raises(UsageError, match="pass --kubeconfig FILE"):
            in_cluster({}, account)

    def test_a_pod_without_a_token_is_told_so(self, account: Path) -> None:
        (account / "token").unlink()
        with pytest.raises(UsageError, match="mount a token"):
            in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "443"}, account)


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    token = TokenFile(path)
    assert token.authorization() == "Bearer old"
    path.write_text("new")
    assert token.authorization() == "Bearer old"
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert token.authorization() == "Bearer new"


def test_a_token_that_was_refused_is_read_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    with ScriptedServer([status(401, "Unauthorized")]) as server:
        client = Client.connect(
            kubeconfig(tmp_path / "config", {"server": server.url}, {"tokenFile": "token"})
        )
        with pytest.raises(UnauthorizedError):
            client.get(NODES, "n")
        (tmp_path / "token").write_text("new")
        client.get(NODES, "n")
        client.close()
    assert [r.headers["authorization"] for r in server.requests] == ["Bearer old", "Bearer new"]


def test_a_token_file_that_is_away_counts_as_no_answer(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot read the token"):
        TokenFile(tmp_path / "token").authorization()


def test_a_renewed_client_certificate_is_used_after_a_401(
    tmp_path: Path, tls_files: Path, tls_server: ScriptedServer
) -> None:
    for name in ("client.crt", "client.key"):
        (tmp_path / name).write_bytes((tls_files / name).read_bytes())
    cluster = {"server": tls_server.url, "certificate-authority": str(tls_files / "ca.crt")}
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    client = Client.connect(kubeconfig(tmp_path / "config", cluster, user))
    tls_server.answers.append(status(401, "Unauthorized", "expired"))
    with pytest.raises(UnauthorizedError):
        client.get(NODES, "n")
    client.get(NODES, "n")
    client.close()
    assert len(tls_server.connections) == 2


def test_a_proxy_of_the_kubeconfig_is_used(tmp_path: Path) -> None:
    with ScriptedServer() as proxy:
        cluster = {"server": "http://api.test", "proxy-url": proxy.url}
        ask(kubeconfig(tmp_path / "config", cluster, {"token": "t"}))
    (request,) = proxy.requests
    assert (request.path, request.headers["host"]) == ("/api/v1/nodes/n", "api.test")


def test_a_proxy_is_told_the_user_and_password_in_its_url(tmp_path: Path) -> None:
    with ScriptedServer() as proxy:
        url = proxy.url.replace("//", "//us%40er:secret@")
        ask(kubeconfig(tmp_path / "config", {"server": "http://api.test", "proxy-url": url}, {"token": "t"}))
    (request,) = proxy.requests
    assert request.headers["proxy-authorization"] == f"Basic {base64.b64encode(b'us@er:secret').decode()}"


def test_a_tunnel_is_asked_for_with_the_user_and_password_of_the_proxy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        port = proxy.getsockname()[1]
        cluster = {"server": "https://api.test", "proxy-url": f"http://user:secret@127.0.0.1:{port}"}
        path = kubeconfig(tmp_path / "config", cluster, {"token": "t"})
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(ask, path)
            peer, _ = proxy.accept()
            with peer:
                request = peer.recv(65536)
            with pytest.raises(UnavailableError):
                asked.result(60)
    assert request.startswith(b"CONNECT api.test:443 ")
    assert b"proxy-authorization: Basic %b\r\n" % base64.b64encode(b"user:secret") in request
    assert b"Bearer" not in request


def test_stop_ends_a_silent_watch_over_tls(
    tmp_path: Path, tls_files: Path, tls_server: ScriptedServer
) -> None:
    cluster = {"server": tls_server.url, "certificate-authority": str(tls_files / "ca.crt")}
    user = {
        "client-certificate": str(tls_files / "client.crt"),
        "client-key": str(tls_files / "client.key"),
    }
    client = Client.connect(kubeconfig(tmp_path / "config", cluster, user))
    tls_server.answers.append(Stream(hold=True))
    stop = threading.Event()
    events = client.watch(NODES, resource_version="1", timeout_seconds=60, stop=stop)
    thread = threading.Thread(target=lambda: list(events))
    thread.start()
    tls_server.wait_for(1)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    client.close()
