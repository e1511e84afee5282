"""A stub API server with a large cluster: serves paged lists and watches on which only bookmarks come.

Run as a process: `python -m bench.stub_cluster NODES CLAIMS` prints its port, then a line per list that it served.
Objects are made from text when they are asked for, so the stub itself stays small. What is written to it (Events, the
Lease, the Secret of the webhook) is kept as it came.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dra_driver.cli.simulated_nodes import nodes as simulated
from dra_driver.cli.worlds import packaged_classes

_DRIVER = "gpu.nvidia.com"
_VERSION = "1000"
_GPUS = 8
_BOOKMARK_SECONDS = 10.0
_QUESTIONS = 5  # that waiting claims ask, each differently
_WAITING = 5  # one claim in so many

Object = dict[str, Any]


class Cluster:
    """Objects by the plural of their kind and their number."""

    def __init__(self, nodes: int, claims: int) -> None:
        by_kind = {one["kind"]: one for one in simulated("dgx-h100=1")}
        self._name = str(by_kind["Node"]["metadata"]["name"])
        self._texts = {
            "nodes": json.dumps(by_kind["Node"]),
            "resourceslices": json.dumps(by_kind["ResourceSlice"]),
        }
        self._uuids = [
            device["attributes"]["uuid"]["string"] for device in by_kind["ResourceSlice"]["spec"]["devices"]
        ]
        self._devices = [device["name"] for device in by_kind["ResourceSlice"]["spec"]["devices"]]
        self._classes = packaged_classes()
        self.sizes = {
            "nodes": nodes,
            "resourceslices": nodes,
            "resourceclaims": claims,
            "deviceclasses": len(self._classes),
            "pods": claims // _WAITING,
        }

    def page(self, plural: str, start: int, limit: int) -> Iterator[Object]:
        for number in range(start, min(start + limit, self.sizes.get(plural, 0))):
            obj = self._object(plural, number)
            obj["metadata"] |= {"uid": f"{plural}-{number}", "resourceVersion": "999"}
            yield obj

    def _object(self, plural: str, number: int) -> Object:
        if plural == "deviceclasses":
            return dict(self._classes[number])
        if plural == "resourceclaims":
            return self._claim(number)
        if plural == "pods":
            return self._pod(number * _WAITING)
        text = self._texts[plural].replace(self._name, f"node-{number}")
        for index, uuid in enumerate(self._uuids):
            text = text.replace(uuid, f"GPU-{number:08x}-0000-0000-0000-{index:012x}")
        obj: Object = json.loads(text)
        return obj

    def _claim(self, number: int) -> Object:
        memory = 80 + number // _WAITING % _QUESTIONS
        wish = f"device.capacity['{_DRIVER}'].memory.compareTo(quantity('{memory}Gi')) >= 0"
        waits = number % _WAITING == 0
        exactly: Object = {"deviceClassName": _DRIVER, "allocationMode": "ExactCount", "count": 1}
        if waits:
            exactly["selectors"] = [{"cel": {"expression": wish}}]
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": f"pod-{number}",
            "uid": f"pods-{number // _WAITING}",
        }
        claim: Object = {
            "metadata": {
                "name": f"claim-{number}",
                "namespace": f"team-{number % 50}",
                "creationTimestamp": "2026-11-30T00:00:00Z",
                "ownerReferences": [owner],
                "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }
        if not waits:
            node, index = divmod(number, _GPUS)
            only = {"key": "metadata.name", "operator": "In", "values": [f"node-{node}"]}
            result = {"request": "gpu", "driver": _DRIVER, "pool": f"node-{node}/gpu"}
            claim["status"] = {
                "allocation": {
                    "devices": {"results": [{**result, "device": self._devices[index]}]},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
                },
                "reservedFor": [{"resource": "pods", "name": f"pod-{number}", "uid": f"pod-{number}"}],
            }
        return claim

    def _pod(self, number: int) -> Object:
        claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        statuses = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        return {
            "metadata": {"name": f"pod-{number}", "namespace": f"team-{number % 50}"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims},
            "status": {
                "phase": "Pending",
                "conditions": [refused],
                "resourceClaimStatuses": statuses,
            },
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cluster: Cluster
    written: dict[str, Object]
    guard: threading.Lock

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        plural = parts.path.rpartition("/")[2]
        if "watch" in query:
            self._watch(float(query.get("timeoutSeconds", "300")))
        elif plural in self.cluster.sizes or plural in {"namespaces", "resourceclaimtemplates"}:
            self._list(plural, query)
        else:
            known = self.written.get(parts.path)
            self._answer(200 if known else 404, known or _status(404, "NotFound"))

    def do_POST(self) -> None:
        body = self._body()
        path = f"{urlsplit(self.path).path}/{body['metadata']['name']}"
        with self.guard:
            if path in self.written:
                self._answer(409, _status(409, "AlreadyExists"))
                return
            self.written[path] = body
        body["metadata"] |= {"uid": path, "resourceVersion": _VERSION}
        self._answer(201, body)

    def do_PUT(self) -> None:
        body = self._body()
        version = int(body["metadata"].get("resourceVersion", "0")) + 1
        body["metadata"]["resourceVersion"] = str(version)
        self.written[urlsplit(self.path).path] = body
        self._answer(200, body)

    def do_PATCH(self) -> None:
        self._body()
        known = self.written.get(urlsplit(self.path).path)
        self._answer(200 if known else 404, known or _status(404, "NotFound"))

    def _list(self, plural: str, query: dict[str, str]) -> None:
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "1000000"))
        if "labelSelector" in query:  # the plugin's Pods, of which there are none
            plural = "none"
        elif not start:
            print(f"list {time.time()} {plural}", flush=True)
        items = list(self.cluster.page(plural, start, limit))
        more = start + limit < self.cluster.sizes.get(plural, 0)
        metadata = {"resourceVersion": _VERSION, **({"continue": str(start + limit)} if more else {})}
        self._answer(200, {"kind": "List", "metadata": metadata, "items": items})

    def _watch(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = time.monotonic() + seconds
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": _VERSION}}}
        line = json.dumps(bookmark).encode() + b"\n"
        while time.monotonic() < end:
            time.sleep(_BOOKMARK_SECONDS)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> Object:
        body: Object = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _answer(self, status: int, body: Object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Lists are told on standard output."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that has gone."""


def _status(code: int, reason: str) -> Object:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}


def main() -> None:
    attributes = {
        "cluster": Cluster(*map(int, sys.argv[1:3])),
        "written": {},
        "guard": threading.Lock(),
    }
    server = Server(("127.0.0.1", 0), type("Handler", (Handler,), attributes))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
