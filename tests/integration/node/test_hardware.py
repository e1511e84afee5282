"""Hardware that is not there, gets lost, or comes back, under a plugin that runs."""

import fcntl
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dra_driver.kube.reflector import Reflector
from dra_driver.kube.resources import RESOURCE_SLICES

GONE = "gpu.nvidia.com/gpu-lost"


def taints(node: Any) -> dict[str, list[tuple[str, str]]]:
    """Key and value of the taints of each device that has any."""
    return {
        device["name"]: [(taint["key"], taint["value"]) for taint in device["taints"]]
        for device in node.devices()
        if device.get("taints")
    }


def held(node: Any, claim: str) -> str:
    (result,) = node.results(claim)
    return str(result["device"])


def pci(name: str) -> str:
    """The PCI address of a device, from its name."""
    domain, bus, slot, function = name.removeprefix("gpu-").split("-")
    return f"{domain}:{bus}:{slot}.{function}"


def test_without_a_driver_an_empty_pool_is_published_and_claims_can_end(node: Any, tmp_path: Path) -> None:
    node.run_pod("a")
    node.running("a")
    node.plugin.stop()

    node.spawn(*node.plugin.command, "--backend=nvml", f"--host-root={tmp_path}")

    node.logged("libnvidia-ml.so.1 was not found under")
    node.ready()
    name = held(node, "a")
    node.until(lambda: {name: [(GONE, "unavailable")]} == taints(node), "a taint on what is held")
    node.published(1)
    node.delete_pod("a")
    node.published(0)
    assert [[]] == [s["spec"].get("devices", []) for s in node.slices()]


@contextmanager
def nobody_can_open(file: Path) -> Iterator[None]:
    """Who opens the file waits until the context ends, or for the 45 seconds that the kernel allows a lease."""
    with file.open("r+b") as holder:
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(holder, fcntl.F_SETSIG, signal.SIGURG)  # that somebody waits, which is nothing to us
        yield


def test_while_nvml_hangs_gpus_stay_for_a_moment_and_claims_can_end(node: Any, tmp_path: Path) -> None:
    node.run_pod("a")
    node.running("a")
    node.plugin.stop()
    library = tmp_path / "usr/lib/wsl/lib/libnvidia-ml.so.1"  # where nobody but NVML looks
    library.parent.mkdir(parents=True)
    library.touch()

    with nobody_can_open(library):
        node.spawn(*node.plugin.command, "--backend=nvml", f"--host-root={tmp_path}")

        node.logged("the hardware has not answered yet; going on without")
        assert 4 == len(node.devices())
        node.delete_pod("a")
        node.logged("NVML has not answered for 10 s")
        node.published(0)
        node.ready()
    node.logged("no NVML library could be loaded")


def test_a_driver_that_comes_later_is_noticed(node: Any) -> None:
    node.plugin.stop()
    node.simulate("nvml: unavailable")

    node.restart()

    node.ready()
    node.published(0)
    node.simulate("")
    node.published(4)


def test_claims_wait_for_a_driver_that_goes_away(node: Any) -> None:
    node.create_claim("a")
    node.simulate("nvml: unavailable")
    node.published(0)
    node.create_pod("a")
    node.simulate("")
    node.running("a")
    node.simulate("nvml: unavailable")

    node.published(1)

    assert "" == node.prepare("a").error  # the spec is there
    node.delete_pod("a")


def test_a_lost_gpu_stays_published_while_it_is_held_and_no_longer(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    name = held(node, "a")
    free = next(other for other in node.device_names() if other != name)

    node.simulate(f"gpus: {{'{pci(name)}': lost, '{pci(free)}': lost}}")

    node.until(lambda: {name: [(GONE, "fault")]} == taints(node), "a taint on what is held")
    assert 3 == len(node.published(3))
    assert free not in node.device_names()
    node.delete_pod("a")
    assert name not in node.published(2)
    node.simulate("")
    assert {name, free} <= set(node.published(4))
    assert {} == taints(node)


def test_a_claim_that_was_given_a_lost_gpu_is_told_and_gets_it_when_it_is_back(node: Any) -> None:
    node.run_pod("a", count=4)
    node.running("a")
    name = node.results("a")[0]["device"]
    node.simulate(f"gpus: {{'{pci(name)}': lost}}")
    node.until(lambda: taints(node), "a taint")

    error = node.prepare("a").error

    assert f"device {name} cannot be used: GPU GPU-" in error
    node.simulate("")
    node.until(lambda: not taints(node), "devices without taints")
    assert "" == node.prepare("a").error


def test_a_held_gpu_that_is_gone_at_a_restart_is_never_unpublished(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    name = held(node, "a")
    seen: list[list[str]] = []
    reflector = Reflector(
        node.cluster.client,
        RESOURCE_SLICES,
        on_event=lambda kind, s: seen.append(
            [device["name"] for device in s["spec"].get("devices", ())] if kind != "DELETED" else []
        ),
    )
    reflector.start()
    assert reflector.synced.wait(node.seconds)
    node.plugin.stop()
    node.simulate("gpus: absent")

    node.restart()

    node.until(lambda: {name: [(GONE, "missing")]} == taints(node), "a taint on what is held")
    reflector.stop()
    assert [] == [names for names in seen if name not in names]
    node.delete_pod("a")
    node.published(0)


def test_a_spec_follows_a_gpu_that_comes_back(node: Any) -> None:
    node.run_pod("a")
    node.running("a")
    node.simulate("gpus: absent")
    node.published(1)
    (spec,) = node.cdi_dir.iterdir()
    before = spec.read_bytes()
    spec.unlink()

    node.simulate("")

    node.until(spec.exists, "the spec of the claim")
    assert before == spec.read_bytes()
