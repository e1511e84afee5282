"""A claim handler whose answers the tests choose, and a plugin that serves it on real sockets."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from dra_driver.kubelet import sockets
from dra_driver.kubelet.plugin import KubeletPlugin
from dra_driver.prepare.claim import ClaimRef
from dra_driver.prepare.record import PreparedDevice

DRIVER = "gpu.nvidia.com"


@dataclass
class Claims:
    """Prepares one device per claim; `answers` replaces that by claim name."""

    answers: dict[str, Callable[[ClaimRef], tuple[PreparedDevice, ...]]] = field(default_factory=dict)
    seen: list[tuple[str, ClaimRef]] = field(default_factory=list)
    observed: list[tuple[str, Exception | None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, ref: ClaimRef) -> tuple[PreparedDevice, ...]:
        with self._lock:
            self.seen.append(("prepare", ref))
        if ref.name in self.answers:
            return self.answers[ref.name](ref)
        return (
            PreparedDevice(
                ("gpu",), "node-a/gpu", "gpu-0", (f"k8s.{DRIVER}/claim={ref.uid}-gpu-0",), "share-1"
            ),
        )

    def unprepare(self, ref: ClaimRef) -> None:
        with self._lock:
            self.seen.append(("unprepare", ref))
        if ref.name in self.answers:
            self.answers[ref.name](ref)

    def observe(self, operation: str, error: Exception | None, seconds: float) -> None:
        assert seconds >= 0
        self.observed.append((operation, error))


@pytest.fixture
def claims() -> Claims:
    return Claims()


@pytest.fixture
def plugin(tmp_path: Path, claims: Claims) -> Iterator[KubeletPlugin]:
    for name in ("plugins", "registry"):
        (tmp_path / name).mkdir()
    plugin = KubeletPlugin(DRIVER, tmp_path / "plugins", tmp_path / "registry", claims, claims.observe)
    plugin.start()
    yield plugin
    plugin.stop(grace=60)


@pytest.fixture
def channel(plugin: KubeletPlugin) -> Iterator[grpc.Channel]:
    with sockets.connect(plugin.endpoint) as channel:
        yield channel


@pytest.fixture
def registration(plugin: KubeletPlugin) -> Iterator[grpc.Channel]:
    with sockets.connect(plugin.registration_socket) as channel:
        yield channel
