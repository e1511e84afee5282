"""A driver that is changed between two Prepares: the second is of the new one, and nothing of the old one stays."""

import pytest

from dra_driver.errors import HardwareError
from dra_driver.inventory.fake_elf import shared_library
from tests.integration.prepare.conftest import Host

_NEW = "590.144.01"  # as long as the old one, so that it can stand in its place in files


def upgrade_libraries(host: Host) -> None:
    for path in list(host.libraries.rglob(f"*.so.{host.version}")):
        new = path.with_name(path.name.replace(host.version, _NEW))
        new.write_bytes(path.read_bytes().replace(host.version.encode(), _NEW.encode()))
        path.unlink()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (host.libraries / name).unlink()
        (host.libraries / name).symlink_to(name.replace(".so.1", f".so.{_NEW}"))


def load(host: Host, version: str) -> None:
    (host.path / "sys/module/nvidia/version").write_text(f"{version}\n")


def versions(host: Host) -> set[str]:
    """Of the libraries in the claim's spec that end in the driver's."""
    return {path.rpartition(".so.")[2] for path in host.mounts() if path.endswith((host.version, _NEW))}


def test_a_claim_that_is_prepared_again_after_a_reload_has_the_new_driver_alone(host: Host) -> None:
    engine = host.start()
    answer = host.prepare(engine)
    assert {host.version} == versions(host)

    upgrade_libraries(host)
    load(host, _NEW)

    assert answer == host.prepare(engine)
    assert {_NEW} == versions(host)


def test_a_claim_waits_while_an_upgrade_is_half_done(host: Host) -> None:
    engine = host.start()
    upgrade_libraries(host)

    with pytest.raises(
        HardwareError, match=f"where libraries of {_NEW} are; finish the upgrade of the driver"
    ):
        host.prepare(engine)
    load(host, _NEW)
    host.prepare(engine)

    assert {_NEW} == versions(host)


def test_another_file_in_place_of_a_library_is_read_anew(host: Host) -> None:
    engine = host.start()
    host.prepare(engine)
    library = host.libraries / f"libcuda.so.{host.version}"

    library.unlink()
    library.write_bytes(shared_library("libcuda.so.2", "x86_64"))
    host.prepare(engine)

    assert "/usr/lib64/libcuda.so.2" in host.mounts()


def test_a_driver_that_is_away_fails_a_claim_until_it_is_back(host: Host) -> None:
    engine = host.start()
    host.prepare(engine)
    host.unprepare(engine)
    host.root.rename(host.root.with_name("away"))

    for _ in range(2):
        with pytest.raises(HardwareError, match="under /run/nvidia/driver on the node"):
            host.prepare(engine)
    host.root.with_name("away").rename(host.root)

    assert host.prepare(engine)
    assert {host.version} == versions(host)


def test_nothing_of_an_earlier_boot_is_used(host: Host) -> None:
    host.prepare(host.start())
    upgrade_libraries(host)
    load(host, _NEW)

    engine = host.start(boot_id="another")

    assert ([], ()) == (host.written(), engine.held())
    host.prepare(engine)
    assert {_NEW} == versions(host)
