"""Pods and containers through a container runtime's CRI socket, as the kubelet makes them.

The messages are compiled when they are first needed: nothing but these tests speaks CRI, so no generated code is
kept. Pods use the host's network, since they need none and so no CNI plugin is needed either.
"""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc

_PROTO = Path(__file__).parent / "cri.proto"
_SERVICE = "runtime.v1.RuntimeService"
_SECONDS = 90.0
_HOST_NETWORK = {"namespace_options": {"network": "NODE"}}


class Cri:
    """A client of the runtime service at `socket`; a call that fails raises grpc.RpcError."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix://{socket}")
        self._methods = _compile().FindServiceByName(_SERVICE).methods_by_name

    def call(self, method: str, **fields: Any) -> Any:
        """The answer to the request with these fields, which may be nested dicts and lists."""
        descriptor = self._methods[method]
        request = json_format.ParseDict(fields, message_factory.GetMessageClass(descriptor.input_type)())
        answer = message_factory.GetMessageClass(descriptor.output_type)
        send = self._channel.unary_unary(
            f"/{_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return send(request, timeout=_SECONDS, wait_for_ready=True)

    def is_ready(self) -> bool:
        """Whether the runtime serves CRI: for a while after its start it answers, but refuses all calls."""
        try:
            self.call("Status")
        except grpc.RpcError as error:
            if "not initialized yet" in str(error):
                return False
            raise
        return True

    def close(self) -> None:
        self._channel.close()


def _compile() -> descriptor_pool.DescriptorPool:
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "descriptors"
        if protoc.main(["protoc", f"-I{_PROTO.parent}", f"--descriptor_set_out={out}", str(_PROTO)]) != 0:
            raise RuntimeError(f"protoc failed on {_PROTO.name}")
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


class Container:
    """A running container, which sleeps."""

    def __init__(self, cri: Cri, identity: str) -> None:
        self._cri = cri
        self.identity = identity

    def run(self, script: str) -> str:
        """What a shell in the container prints, errors included; the script has to succeed."""
        answer = self._cri.call(
            "ExecSync", container_id=self.identity, cmd=["/bin/sh", "-c", f"exec 2>&1; {script}"], timeout=60
        )
        text: str = answer.stdout.decode()
        assert answer.exit_code == 0, text
        return text

    def stop(self) -> None:
        self._cri.call("StopContainer", container_id=self.identity, timeout=0)


class Pod:
    """A sandbox, and its containers, all of one image."""

    def __init__(self, cri: Cri, *, name: str, image: str, cgroup_parent: str) -> None:
        self._cri = cri
        self._image = image
        self._attempts = itertools.count()
        self._config = {
            "metadata": {"name": name, "uid": f"uid-{name}", "namespace": "default"},
            "linux": {"cgroup_parent": cgroup_parent, "security_context": _HOST_NETWORK},
        }
        self._identity: str = cri.call("RunPodSandbox", config=self._config).pod_sandbox_id

    def start(self, cdi_ids: Sequence[str], *, user: int | None = None) -> Container:
        """A new container, or the same again, with these CDI devices."""
        security: dict[str, Any] = dict(_HOST_NETWORK)
        if user is not None:
            security |= {"run_as_user": {"value": user}, "run_as_group": {"value": user}}
        config = {
            "metadata": {"name": "app", "attempt": next(self._attempts)},
            "image": {"image": self._image},
            "command": ["/bin/sleep", "1000"],
            "linux": {"security_context": security},
            "CDI_devices": [{"name": name} for name in cdi_ids],
        }
        created = self._cri.call(
            "CreateContainer", pod_sandbox_id=self._identity, config=config, sandbox_config=self._config
        )
        self._cri.call("StartContainer", container_id=created.container_id)
        return Container(self._cri, created.container_id)

    def remove(self) -> None:
        self._cri.call("StopPodSandbox", pod_sandbox_id=self._identity)
        self._cri.call("RemovePodSandbox", pod_sandbox_id=self._identity)
