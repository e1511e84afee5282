"""Commands run in this process, on files that a test writes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.cli.main import main

Object = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Commands:
    """`write` gives a file of documents; `run` runs a command and catches what it prints."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        self._files = 0

    def write(self, *documents: Object, text: str = "") -> str:
        self._files += 1
        path = self.directory / f"{self._files}.yaml"
        path.write_text(text or yaml.safe_dump_all(documents))
        return str(path)

    def run(self, *arguments: str) -> Ran:
        code = main(arguments)
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.err
        return Ran(code, printed.out, printed.err)


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Commands(tmp_path, capsys)


class Manifests:
    """Objects as people write them."""

    @staticmethod
    def request(*expressions: str, name: str = "gpu", **exactly: Any) -> Object:
        selectors = (
            {"selectors": [{"cel": {"expression": one}} for one in expressions]} if expressions else {}
        )
        return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **selectors, **exactly}}

    @classmethod
    def claim(cls, name: str, *requests: Object, **devices: Any) -> Object:
        spec = {"devices": {"requests": list(requests) or [cls.request()], **devices}}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": spec,
        }

    @classmethod
    def template(cls, name: str, *requests: Object, **devices: Any) -> Object:
        body = cls.claim(name, *requests, **devices)
        return {**body, "kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}

    @staticmethod
    def pod(name: str, *, claim: str = "", template: str = "", **spec: Any) -> Object:
        entry: Object = {"name": "gpu"}
        entry |= {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
        entries = {"resourceClaims": [entry]} if claim or template else {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "app"}], **entries, **spec},
        }

    @classmethod
    def deployment(cls, name: str, replicas: int, **pod: Any) -> Object:
        template = cls.pod(name, **pod)
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": template["spec"]}},
        }

    @staticmethod
    def device(name: str, memory: str = "81559Mi", **fields: Any) -> Object:
        """A device; attributes are given as name=value, everything else by its API name."""
        known = {"allowMultipleAllocations", "consumesCounters", "taints", "capacity"}
        kinds: dict[type, str] = {bool: "bool", int: "int", str: "string"}
        values = {"type": "gpu", **{key: value for key, value in fields.items() if key not in known}}
        attributes = {key: {kinds[type(value)]: value} for key, value in values.items()}
        rest = {"capacity": {"memory": {"value": memory}}, **{k: v for k, v in fields.items() if k in known}}
        return {"name": name, "attributes": attributes, **rest}

    @staticmethod
    def slice(node: str, *devices: Object, driver: str = "gpu.nvidia.com", **spec: Any) -> Object:
        pool = {"name": f"{node}/{driver.partition('.')[0]}", "generation": 1, "resourceSliceCount": 1}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}"},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices), **spec},
        }

    @staticmethod
    def device_class(name: str, *expressions: str, **spec: Any) -> Object:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": one}} for one in expressions], **spec},
        }


@pytest.fixture
def make() -> Manifests:
    return Manifests()
