"""How long the webhook takes for a claim with eight selectors, asked over TLS on one connection as an API server does.

Selectors that nobody sent before are compiled, which is what takes the time; templates of a kind come again and again.
"""

import json
import ssl
import statistics
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any

_DRIVER = "gpu.nvidia.com"
_CALLS = 500
_WARM = 20
_SELECTORS = (
    f"device.attributes['{_DRIVER}'].architecture == 'Hopper' || {{n}} < 0",
    f"device.capacity['{_DRIVER}'].memory.isGreaterThan(quantity('{{n}}Mi'))",
    f"device.attributes['{_DRIVER}'].productName.startsWith('NVIDIA H{{n}}') || true",
    f"device.attributes['{_DRIVER}'].?nvlinkPeers.orValue(0) < {{n}}",
    f"device.attributes['{_DRIVER}'].cudaComputeCapability.isGreaterThan(semver('8.0.{{n}}'))",
    f"device.attributes['{_DRIVER}'].type == 'gpu' && {{n}} > 0",
    f"device.attributes['{_DRIVER}'].brand in ['Nvidia', 'Tesla', '{{n}}']",
    f"device.attributes['{_DRIVER}'].driverVersion.isGreaterThan(semver('550.0.{{n}}'))",
)


def measure(port: int, first: int = 100) -> Iterator[tuple[str, float, float | None]]:
    """Label, milliseconds and target of each figure; selectors are numbered, from `first` on those that nobody sent."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    for number in range(1, _WARM):
        _seconds(connection, number)
    for label, numbers in (("new", range(first, first + _CALLS)), ("the same again", [1] * _CALLS)):
        times = [1000 * _seconds(connection, number) for number in numbers]
        percentiles = statistics.quantiles(times, n=100, method="inclusive")
        yield f"webhook, claim with 8 selectors, {label}, p50", percentiles[49], None
        yield f"webhook, claim with 8 selectors, {label}, p99", percentiles[98], 20
    connection.close()


def _seconds(connection: HTTPSConnection, number: int) -> float:
    body = json.dumps(_review([text.format(n=number) for text in _SELECTORS]))
    begin = time.perf_counter()
    connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    response = json.loads(answer.read())["response"]
    seconds = time.perf_counter() - begin
    if not response["allowed"]:
        raise RuntimeError(f"the webhook refuses what is right: {response}")
    return seconds


def _review(expressions: list[str]) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": _DRIVER, "selectors": selectors}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"},
            "operation": "CREATE",
            "namespace": "default",
            "object": {
                "metadata": {"name": "c", "namespace": "default"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
            },
        },
    }
