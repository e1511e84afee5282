"""Claims as no API server lets them through: no name of theirs becomes a path, or a spec that runtimes would skip."""

from collections.abc import Callable

import pytest

from dra_driver.cdi import registry
from dra_driver.errors import ClaimError
from tests.integration.prepare.conftest import UID, Host

NAMES = (
    "../../../../etc/cron.d/x",
    "/etc/cron.d/x",
    "a\nb",
    "a\0b",
    "x" * 300,
    f"k8s.gpu.nvidia.com-claim_{UID}.json",
    "ä/\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}",
)


def claim_name(host: Host, name: str) -> None:
    host.claim["metadata"]["name"] = name


def namespace(host: Host, name: str) -> None:
    host.claim["metadata"]["namespace"] = name


def request_name(host: Host, name: str) -> None:
    host.result["request"] = name


def share(host: Host, name: str) -> None:
    host.result["shareID"] = name


def device(host: Host, name: str) -> None:
    host.result["device"] = name


def pool(host: Host, name: str) -> None:
    host.result["pool"] = name


@pytest.mark.parametrize(
    "part", [claim_name, namespace, request_name, share, device, pool], ids=lambda part: part.__name__
)
def test_a_hostile_name_is_refused_and_nothing_is_written(
    host: Host, part: Callable[[Host, str], None]
) -> None:
    engine, before = host.start(), host.rest()

    for name in NAMES:
        part(host, name)
        with pytest.raises(ClaimError, match=r"; delete (the claim|the Pod)"):
            host.prepare(engine)

    assert ([], before) == (host.written(), host.rest())


def test_a_hostile_uid_is_refused_and_nothing_is_written(host: Host) -> None:
    engine, before = host.start(), host.rest()

    for uid in NAMES:
        with pytest.raises(ClaimError, match="is no UID of a claim"):
            host.prepare(engine, uid)

    assert ([], before) == (host.written(), host.rest())


def test_hostile_annotations_become_no_path(host: Host) -> None:
    engine, before = host.start(), host.rest()
    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/claim/gpu"

    for name in NAMES:
        host.claim["metadata"] |= {
            "annotations": {"resource.kubernetes.io/pod-claim-name": name, name: name},
        }
        host.prepare(engine)
        found = registry.load([host.specs.directory])
        (device,) = found.devices.values()
        (metadata,) = device.edits["mounts"]
        assert f"{folder}/gpu.nvidia.com-metadata.json" == metadata["containerPath"]
        host.unprepare(engine)

    assert ([], before) == (host.written(), host.rest())
