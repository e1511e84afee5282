"""How drivers come, go and are refused, and what happens to their slices."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from dra_driver.embedded.kubelet.errors import KubeletError
from dra_driver.embedded.kubelet.plugins import PluginStore
from dra_driver.embedded.kubelet.timing import Timing
from dra_driver.embedded.kubelet.wiping import SliceWiper
from dra_driver.kube import resources

QUICK = Timing(scan=0.02, registration_retry=0.02, registration_retry_cap=1.0, pod_retry=0.02)
LONG = 90.0
DRIVER = "example.com"
INVALID = (
    "plugin validation failed with err: invalid supported gRPC versions of DRA driver plugin "
    "example.com at endpoint {endpoint}: "
)
NONE_SUPPORTED = (
    'none of services supported by the plugin (["v9.DRAPlugin" "x"]) '
    'are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
)


def names(slices: list[dict[str, Any]]) -> set[str]:
    return {item["metadata"]["name"] for item in slices}


def test_a_driver_that_comes_after_the_kubelet_is_registered_and_told(cluster: Any) -> None:
    kubelet = cluster.kubelet()

    plugin = cluster.plugin()

    assert kubelet.wait_registered(DRIVER, LONG)
    plugin.wait_for(lambda p: p.told == [(True, "")])
    ((driver, (registered,)),) = kubelet.registered().items()
    assert (DRIVER, str(plugin.endpoint), "v1.DRAPlugin") == (driver, registered.endpoint, registered.service)


def test_a_driver_that_was_there_before_is_found(cluster: Any) -> None:
    cluster.plugin()

    assert cluster.kubelet().wait_registered(DRIVER, LONG)


@pytest.mark.parametrize(
    ("offered", "supported", "chosen"),
    [
        (["v1.DRAPlugin", "v1beta1.DRAPlugin"], ["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1.DRAPlugin"),
        (["v1beta1.DRAPlugin", "v1.DRAPlugin"], ["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (["v1.DRAPlugin", "v1beta1.DRAPlugin"], ["v1beta1.DRAPlugin"], "v1beta1.DRAPlugin"),
        (["v1alpha1.DRAResourceHealth", "v1.DRAPlugin"], ["v1.DRAPlugin"], "v1.DRAPlugin"),
    ],
)
def test_the_first_protocol_of_the_drivers_list_that_the_kubelet_speaks_is_used(
    cluster: Any, offered: list[str], supported: list[str], chosen: str
) -> None:
    kubelet = cluster.kubelet(supported_versions=supported)
    plugin = cluster.plugin(versions=offered)

    cluster.run()
    plugin.wait_for(lambda p: p.calls)

    assert chosen == plugin.calls[0].service
    assert [chosen] == [registered.service for registered in kubelet.registered()[DRIVER]]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ({"versions": []}, f"{INVALID}empty list of supported gRPC services (aka supported versions)"),
        ({"versions": ["v9.DRAPlugin", "x"]}, f"{INVALID}{NONE_SUPPORTED}"),
        (
            {"type": "WrongPlugin"},
            "no handler registered for plugin type: WrongPlugin at socket {socket}",
        ),
    ],
    ids=["empty", "unknown", "type"],
)
def test_a_driver_that_is_refused_is_told_why_and_tried_again(
    cluster: Any, script: dict[str, Any], text: str
) -> None:
    kubelet = cluster.kubelet()
    plugin = cluster.plugin(**script)

    plugin.wait_for(lambda p: len(p.told) >= 2)

    wanted = text.format(endpoint=plugin.endpoint, socket=plugin.registration_socket)
    assert {(False, f"RegisterPlugin error -- {wanted}")} == set(plugin.told)
    assert {} == kubelet.registered()


def test_a_second_socket_with_the_same_endpoint_is_refused(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    first = cluster.plugin()
    first.wait_for(lambda p: p.told)
    second = dataclasses.replace(first, registry=first.registry / "second", told=[])
    second.registry.mkdir()

    server = second.announce()
    try:
        second.wait_for(lambda p: p.told)
    finally:
        server.stop(grace=None).wait()

    text = f"endpoint {first.endpoint} already registered for DRA driver plugin {DRIVER}"
    assert (False, f"RegisterPlugin error -- plugin registration failed with err: {text}") == second.told[0]
    assert 1 == len(kubelet.registered()[DRIVER])


def test_a_driver_that_is_slow_to_say_who_it_is_is_asked_again(cluster: Any) -> None:
    asked: list[int] = []
    slow = threading.Event()

    def get_info() -> None:
        asked.append(1)
        if len(asked) == 1:
            slow.wait(LONG)  # until the kubelet has asked again

        slow.set()

    kubelet = cluster.kubelet(timing=dataclasses.replace(QUICK, get_info=0.1))
    cluster.plugin(get_info=get_info)

    assert kubelet.wait_registered(DRIVER, LONG)
    assert len(asked) >= 2


def test_a_driver_is_deregistered_when_its_socket_goes(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    plugin = cluster.plugin()
    assert kubelet.wait_registered(DRIVER, LONG)

    plugin.stop()  # which removes the sockets

    assert kubelet.wait_deregistered(DRIVER, LONG)
    assert {} == kubelet.registered()


def test_a_socket_that_was_made_anew_is_registered_anew(cluster: Any) -> None:
    kubelet = cluster.kubelet()
    cluster.plugin().wait_for(lambda p: p.told)

    # What a driver does that was killed and comes back: the old file is still there.
    plugin = cluster.plugin()

    plugin.wait_for(lambda p: p.told == [(True, "")])
    assert kubelet.wait_registered(DRIVER, LONG)


def test_a_kubelet_that_was_restarted_registers_drivers_again(cluster: Any) -> None:
    first = cluster.kubelet()
    plugin = cluster.plugin()
    plugin.wait_for(lambda p: p.told)
    first.stop()

    second = cluster.kubelet()

    assert second.wait_registered(DRIVER, LONG)
    plugin.wait_for(lambda p: p.told == [(True, "")] * 2)


@pytest.mark.parametrize("name", [".hidden.sock", "file"])
def test_hidden_sockets_and_files_are_ignored_and_folders_are_searched(cluster: Any, name: str) -> None:
    kubelet = cluster.kubelet()
    (kubelet.registry_dir / "file").touch()
    hidden = cluster.plugin("hidden.example.com")
    hidden.stop()
    hidden.registration_socket.parent.joinpath(name).touch()
    below = cluster.plugin()
    below.wait_for(lambda p: p.told)

    assert [DRIVER] == list(kubelet.registered())


def test_all_slices_of_the_node_are_deleted_when_the_kubelet_starts(cluster: Any) -> None:
    cluster.slice("mine")
    cluster.slice("other-driver", driver="other.example.com")
    cluster.slice("other-node", node="node-b")

    cluster.kubelet()

    assert ["other-node"] == cluster.slices()


def test_the_slices_of_a_driver_that_went_are_deleted_after_a_while_and_no_others(cluster: Any) -> None:
    kubelet = cluster.kubelet(timing=dataclasses.replace(QUICK, wipe=0.05))
    plugin = cluster.plugin()
    assert kubelet.wait_registered(DRIVER, LONG)
    for name, options in (
        ("mine", {}),
        ("other", {"driver": "other.example.com"}),
        ("far", {"node": "node-b"}),
    ):
        cluster.slice(name, **options)

    plugin.stop()

    cluster.wait(resources.RESOURCE_SLICES, lambda slices: names(slices) == {"other", "far"})


def test_a_connection_that_drops_is_as_good_as_a_socket_that_goes(cluster: Any) -> None:
    kubelet = cluster.kubelet(timing=dataclasses.replace(QUICK, wipe=0.05))
    plugin = cluster.plugin()
    assert kubelet.wait_registered(DRIVER, LONG)
    cluster.slice("mine")

    plugin.stop_claims()  # the announcement stays, as after a crash

    cluster.wait(resources.RESOURCE_SLICES, lambda slices: not slices)
    assert [DRIVER] == list(kubelet.registered())


class Wiper:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bool]] = []

    def usable(self, driver: str) -> None:
        self.told.append((driver, True))

    def unusable(self, driver: str) -> None:
        self.told.append((driver, False))


def test_a_driver_that_comes_back_in_time_keeps_its_slices(cluster: Any) -> None:
    wiper = SliceWiper(cluster.client, "node-a", delay=LONG)
    cluster.slice("mine")
    before = set(threading.enumerate())
    wiper.unusable(DRIVER)
    (waiting,) = [t for t in set(threading.enumerate()) - before if t.name == f"wipe-{DRIVER}"]

    wiper.usable(DRIVER)
    waiting.join(LONG / 2)

    assert (False, ["mine"]) == (waiting.is_alive(), cluster.slices())


def test_the_wiper_hears_of_a_driver_that_goes_and_comes_back(cluster: Any) -> None:
    wiper = Wiper()
    store = PluginStore(wiper, supported=["v1.DRAPlugin"], timeout=1)
    plugin = cluster.plugin()
    store.register(DRIVER, str(plugin.endpoint), ["v1.DRAPlugin"])
    assert store.wait_connected(DRIVER, LONG)
    store.deregister(DRIVER, str(plugin.endpoint))
    store.register(DRIVER, str(plugin.endpoint), ["v1.DRAPlugin"])
    assert store.wait_connected(DRIVER, LONG)
    store.close()

    usable = [(DRIVER, False), (DRIVER, True)]
    assert usable * 2 == _without_repeats(wiper.told)


def test_the_youngest_connected_endpoint_is_called_and_without_one_the_youngest(
    cluster: Any, root: Path
) -> None:
    wiper = Wiper()
    store = PluginStore(wiper, supported=["v1.DRAPlugin"], timeout=1)
    cluster.kubelet()
    plugin = cluster.plugin()
    store.register(DRIVER, str(plugin.endpoint), ["v1.DRAPlugin"])
    store.register(DRIVER, str(root / "nobody.sock"), ["v1.DRAPlugin"])

    assert store.wait_connected(DRIVER, LONG)
    connected = store.get(DRIVER).endpoint
    store.deregister(DRIVER, str(plugin.endpoint))
    youngest = store.get(DRIVER).endpoint
    store.close()

    assert (str(plugin.endpoint), str(root / "nobody.sock")) == (connected, youngest)
    assert [(DRIVER, False), (DRIVER, True), (DRIVER, False)] == _without_repeats(wiper.told)


def _without_repeats(told: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    return [entry for i, entry in enumerate(told) if i == 0 or told[i - 1] != entry]


def test_a_driver_nobody_registered_is_named() -> None:
    store = PluginStore(Wiper(), supported=["v1.DRAPlugin"], timeout=1)

    with pytest.raises(KubeletError, match=r"^DRA driver example\.com is not registered$"):
        store.get(DRIVER)
