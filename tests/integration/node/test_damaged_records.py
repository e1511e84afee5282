"""Records that something damaged while the plugin was away."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"state":"completed"', b'"state":"COMPLETED"'))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


@pytest.mark.parametrize("damage", [truncate, change, empty, make_directory])
def test_a_damaged_record_harms_nobody_and_goes_with_its_claim(
    node: Any, damage: Callable[[Path], None]
) -> None:
    for name in ("a", "b"):
        node.run_pod(name)
        node.running(name)
    specs = node.state().specs
    uids = {name: node.claim(name)["metadata"]["uid"] for name in ("a", "b")}
    node.plugin.stop()
    damage(node.claims_dir / f"{uids['a']}.json")

    node.restart()

    node.ready()
    assert specs == node.state().specs
    assert "dra_driver_records_quarantined 1.0" in node.get("/metrics")[1]
    assert 'event="record set aside"' in node.log()
    assert "" == node.prepare("b").error
    node.delete_pod("a")
    assert node.state_of("b") == node.state()
    assert "dra_driver_records_quarantined 0.0" in node.get("/metrics")[1]


def test_a_claim_with_a_damaged_record_can_be_prepared_again(node: Any) -> None:
    node.run_pod("a")
    ids = node.running("a").cdi_ids
    node.plugin.stop()
    (record,) = node.claims_dir.glob("*.json")
    truncate(record)
    node.restart()
    node.ready()

    node.node.restart_kubelet()

    assert ids == node.running("a").cdi_ids
    assert [record.name] == [path.name for path in node.claims_dir.glob("*.json")]
