"""Where the API server is and who we are there: in-cluster, or from a kubeconfig.

Both are read here as long as they name files, data or a token: that is all a Pod or a node ever has, and the
`kubernetes` library adds 19 MB and 0.2 s to every node's plugin for it (and reads a `tokenFile` only once).
What needs a program or a provider (exec plugins, OIDC, passwords, proxies) is the library's, loaded on demand.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dra_driver.errors import UsageError, one_line
from dra_driver.kube.endpoint import (
    Credentials,
    Endpoint,
    LibraryCredentials,
    StaticToken,
    Tls,
    TokenFile,
    why,
)

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PLAIN_CLUSTER = {
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "disable-compression",
    "extensions",
}
_PLAIN_USER = {
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "extensions",
}


_TYPES: Mapping[str, type] = {  # of what is no text
    "insecure-skip-tls-verify": bool,
    "disable-compression": bool,
    "extensions": list,
    "exec": dict,
    "auth-provider": dict,
    "as-groups": list,
    "as-user-extra": dict,
}
_WORDS: Mapping[type, str] = {str: "text", bool: "truth value", list: "list", dict: "mapping"}


def in_cluster(environ: Mapping[str, str] = os.environ, directory: Path = _SERVICE_ACCOUNT) -> Endpoint:
    """The API server of the cluster that this Pod runs in; UsageError where it is no Pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token, authority = directory / "token", directory / "ca.crt"
    if not host or not port:
        msg = (
            "no kubeconfig was given, and this is no Pod (KUBERNETES_SERVICE_HOST is not set); "
            "pass --kubeconfig FILE"
        )
        raise UsageError(msg)
    for path in (token, authority):
        if not path.is_file():
            msg = f"the Pod has no {path}; let its service account mount a token, or pass --kubeconfig FILE"
            raise UsageError(msg)
    host = f"[{host}]" if ":" in host else host
    return Endpoint(f"https://{host}:{port}", TokenFile(token), Tls(authority_file=str(authority)))


def from_kubeconfig(path: Path) -> Endpoint:
    """The current context of the kubeconfig at `path`; UsageError, naming it, where that is no use."""
    try:
        body = yaml.safe_load(path.read_text())
        cluster, user = _current(body)
        plain = cluster.keys() <= _PLAIN_CLUSTER and user.keys() <= _PLAIN_USER
        if plain and not _may_need_proxy(cluster["server"]):
            return _plain(cluster, user, path.parent)
        return _from_library(path, user)
    except (OSError, KeyError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        msg = f"cannot use the kubeconfig {path}: {why(error)}"
        raise UsageError(msg) from error


def _current(body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(body, dict):
        msg = "it is empty" if body is None else "it is no mapping"
        raise TypeError(msg)
    name = body.get("current-context")
    if not name:
        msg = "it has no current-context; choose one with kubectl config use-context"
        raise ValueError(msg)
    context = _named(body, "contexts", "context", name)
    cluster = _named(body, "clusters", "cluster", context["cluster"])
    user = _named(body, "users", "user", context["user"]) if context.get("user") else {}
    if not str(cluster["server"]).startswith(("http://", "https://")):
        msg = f"its server {cluster['server']!r} is no URL"
        raise ValueError(msg)
    return cluster, user


def _named(body: Mapping[str, Any], plural: str, kind: str, name: str) -> dict[str, Any]:
    """The cluster, user or context of that name, all parts of which are of the type that they should be."""
    entries = body.get(plural) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        msg = f"its {plural} are no list of mappings"
        raise ValueError(msg)
    for entry in entries:
        if entry["name"] == name:
            found = entry.get(kind) or {}
            if not isinstance(found, dict):
                msg = f"its {kind} {name!r} is no mapping"
                raise ValueError(msg)
            for key, value in found.items():
                wanted = _TYPES.get(key, str)
                if value is not None and not isinstance(value, wanted):
                    msg = f"{key} of its {kind} {name!r} is no {_WORDS[wanted]}"
                    raise TypeError(msg)
            return found
    msg = f"it names the {kind} {name!r}, but {plural} has none of that name"
    raise ValueError(msg)


def _plain(cluster: Mapping[str, Any], user: Mapping[str, Any], directory: Path) -> Endpoint:
    authority = _part(cluster, "certificate-authority", directory)
    tls = Tls(
        authority_file=str(authority) if isinstance(authority, Path) else None,
        authority=authority if isinstance(authority, bytes) else None,
        certificate=_part(user, "client-certificate", directory),
        key=_part(user, "client-key", directory),
        verify=not cluster.get("insecure-skip-tls-verify"),
    )
    url = str(cluster["server"]).rstrip("/")
    credentials: Credentials
    if user.get("token"):  # wins over the file, as in kubectl
        credentials = StaticToken(user["token"])
    elif user.get("tokenFile"):
        credentials = TokenFile(directory / user["tokenFile"])
    else:
        credentials = StaticToken()
    return Endpoint(
        url, credentials, tls if url.startswith("https") else None, cluster.get("tls-server-name") or None
    )


def _part(body: Mapping[str, Any], key: str, directory: Path) -> bytes | Path | None:
    data = body.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            msg = f"its {key}-data is no base64"
            raise ValueError(msg) from error
    name = body.get(key)
    return directory / name if name else None


def _may_need_proxy(url: str) -> bool:
    if url.startswith(("http://", "https://localhost", "https://127.", "https://[::1]")):
        return False
    return any(os.environ.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"))


def _from_library(path: Path, user: Mapping[str, Any]) -> Endpoint:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_kube_config

    configuration = Configuration()
    try:
        load_kube_config(str(path), client_configuration=configuration, persist_config=False)
    except ConfigException as error:
        raise ValueError(one_line(error)) from error
    certificate, key = configuration.cert_file, configuration.key_file
    if "exec" in user and not certificate and not configuration.api_key:
        msg = (
            f"its exec plugin {user['exec'].get('command')!r} gave no credentials"  # the library only logs it
        )
        raise ValueError(msg)
    tls = Tls(
        authority_file=configuration.ssl_ca_cert,
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        verify=configuration.verify_ssl,
    )
    url = str(configuration.host).rstrip("/")
    return Endpoint(
        url,
        LibraryCredentials(configuration),
        tls if url.startswith("https") else None,
        configuration.tls_server_name,
        _proxy_for(configuration, url),
    )


def _proxy_for(configuration: Any, url: str) -> str | None:
    from kubernetes.client import rest

    bypassed = configuration.no_proxy and rest.should_bypass_proxies(url, no_proxy=configuration.no_proxy)
    return None if bypassed else configuration.proxy
