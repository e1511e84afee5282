"""A stub API server: answers every request after a fixed delay, and knows just enough to be called by a plugin.

Run as a process: prints its port, then one line per ResourceSlice written ("slice <unix time> <devices>").

A claim's name says what it is: `c-<n>-<anything>` is allocated device n of the slices written last, and
`adm-<n>-<anything>` has it with admin access. Its UID is the last 36 characters of the name.
"""

import asyncio
import json
import sys
import time
from typing import Any

_DRIVER = "gpu.nvidia.com"


class Stub:
    """The state of the stub: the devices of the slices that were written."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay = delay_seconds
        self._devices: list[tuple[str, str]] = []  # pool, name
        self._slices: dict[str, dict[str, Any]] = {}
        self._version = 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *headers = head.decode().split("\r\n")
                method, target, _ = line.split(" ")
                lengths = [h.split(":")[1] for h in headers if h.lower().startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0])) if lengths else b""
                if "watch=" in target:
                    await self._watch(writer)
                    return
                due = asyncio.get_running_loop().time() + self._delay
                status, answer = self._answer(method, target.partition("?")[0], body)
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
                data = json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
                    + data
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    @staticmethod
    async def _watch(writer: asyncio.StreamWriter) -> None:
        """A watch on which nothing ever happens."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await writer.drain()
        await asyncio.sleep(3600)

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        kind, _, name = path.rpartition("/")
        if kind.endswith("/nodes"):
            return 200, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": "node-uid"}}
        if kind.endswith("/resourceclaims"):
            return 200, self._claim(name, kind.split("/")[-2])
        if path.endswith("/resourceslices") and method == "GET":
            metadata = {"resourceVersion": str(self._version)}
            return 200, {
                "kind": "ResourceSliceList",
                "metadata": metadata,
                "items": list(self._slices.values()),
            }
        if "resourceslices" in path and method in {"POST", "PUT"}:
            return 201, self._store(json.loads(body))
        return 404, {
            "kind": "Status",
            "status": "Failure",
            "reason": "NotFound",
            "code": 404,
            "message": path,
        }

    def _store(self, slice_: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        metadata = slice_["metadata"]
        metadata.setdefault("name", f"{metadata.get('generateName', 'slice-')}{self._version}")
        metadata.setdefault("uid", f"uid-{self._version}")
        metadata["resourceVersion"] = str(self._version)
        self._slices[metadata["name"]] = slice_
        spec = slice_["spec"]
        self._devices = [(spec["pool"]["name"], device["name"]) for device in spec.get("devices", ())]
        print(f"slice {time.time()} {len(self._devices)}", flush=True)
        return slice_

    def _claim(self, name: str, namespace: str) -> dict[str, Any]:
        kind, number, _ = name.split("-", 2)
        pool, device = self._devices[int(number)]
        result = {"request": "gpu", "driver": _DRIVER, "pool": pool, "device": device}
        if kind == "adm":
            result["adminAccess"] = True  # type: ignore[assignment]
        exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": name[-36:], "resourceVersion": "1"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
            "status": {
                "allocation": {"devices": {"results": [result]}},
                "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-uid"}],
            },
        }


def kubeconfig(server: str) -> dict[str, object]:
    """A kubeconfig for a stub at host:port."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://{server}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }


async def _main(delay_seconds: float) -> None:
    server = await asyncio.start_server(Stub(delay_seconds).serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1])))
