"""A bare plugin: the least that a Python DRA driver can do, as the measure for ours.

It registers, publishes one slice, and prepares a claim by fetching it and writing a CDI spec (temporary file,
rename). No record, no checks, no conflicts, no logs: it would lose claims. Not a driver to use.
"""

import json
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import urllib3

from dra_driver.kubelet.pb import dra_v1_pb2 as pb
from dra_driver.kubelet.pb import dra_v1_pb2_grpc as pb_grpc
from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as registration_pb2
from dra_driver.kubelet.pb import pluginregistration_v1_pb2_grpc as registration_pb2_grpc

_DRIVER = "gpu.nvidia.com"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class Bare(pb_grpc.DRAPluginServicer, registration_pb2_grpc.RegistrationServicer):
    """All services of the bare plugin."""

    def __init__(self, server: str, endpoint: Path, cdi_dir: Path) -> None:
        host, port = server.split(":")
        self._http = urllib3.HTTPConnectionPool(host, int(port), maxsize=16)
        self._endpoint = endpoint
        self._cdi_dir = cdi_dir

    def publish(self, node: str) -> None:
        self._http.request("GET", f"/api/v1/nodes/{node}").json()
        spec = {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(8)],
        }
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {}, "spec": spec}
        self._http.request("POST", _SLICES, body=json.dumps(body))

    def GetInfo(self, request: Any, context: Any) -> Any:
        return registration_pb2.PluginInfo(
            type="DRAPlugin", name=_DRIVER, endpoint=str(self._endpoint), supported_versions=["v1.DRAPlugin"]
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        return registration_pb2.RegistrationStatusResponse()

    def NodePrepareResources(self, request: Any, context: Any) -> Any:
        response = pb.NodePrepareResourcesResponse()
        for ref in request.claims:
            claim = json.loads(self._http.request("GET", _CLAIMS.format(ref.namespace, ref.name)).data)
            devices = []
            for result in claim["status"]["allocation"]["devices"]["results"]:
                number = int(result["device"].split("-")[1])
                nodes = [
                    {"path": f"/dev/nvidia{number}"},
                    {"path": "/dev/nvidiactl"},
                    {"path": "/dev/nvidia-uvm"},
                ]
                name = f"{ref.uid}-{result['device']}"
                devices.append({"name": name, "containerEdits": {"deviceNodes": nodes}})
                response.claims[ref.uid].devices.add(
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=result["device"],
                    cdi_device_ids=[f"bare.{_DRIVER}/claim={name}"],
                )
            spec = {"cdiVersion": "0.5.0", "kind": f"bare.{_DRIVER}/claim", "devices": devices}
            path = self._cdi_dir / f"bare-{ref.uid}.json"
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(spec))
            temporary.rename(path)
        return response

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        response = pb.NodeUnprepareResourcesResponse()
        for ref in request.claims:
            (self._cdi_dir / f"bare-{ref.uid}.json").unlink(missing_ok=True)
            response.claims[ref.uid].SetInParent()
        return response


def main() -> None:
    server, plugins, registry, cdi_dir, node = sys.argv[1:]
    endpoint = Path(plugins) / "dra.sock"
    bare = Bare(server, endpoint, Path(cdi_dir))
    servers = []
    services: list[tuple[Path, Any]] = [
        (endpoint, pb_grpc.add_DRAPluginServicer_to_server),
        (Path(registry) / "bare-reg.sock", registration_pb2_grpc.add_RegistrationServicer_to_server),
    ]
    for path, add in services:
        grpc_server = grpc.server(ThreadPoolExecutor(32))
        add(bare, grpc_server)
        grpc_server.add_insecure_port(f"unix:{path}")
        grpc_server.start()
        servers.append(grpc_server)
    bare.publish(node)
    signal.sigwait({signal.SIGTERM})
    for grpc_server in servers:
        grpc_server.stop(None)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main()
