"""Which configuration is accepted, before anything is done."""

from typing import Any

import pytest

from dra_driver.errors import ClaimError, ConfigError

GPU0, GPU1 = "gpu-0000-65-00-0", "gpu-0000-ca-00-0"
API = "resource.nvidia.com/v1beta1"
PARAMETERS = r"claim default/a: status\.allocation\.devices\.config\[0\]\.opaque\.parameters"


def entry(parameters: Any, *requests: str, source: str = "FromClaim", driver: str = "gpu.nvidia.com") -> Any:
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": driver, "parameters": parameters},
    }


def kind(name: Any = "GpuConfig", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": name, **fields}


@pytest.mark.parametrize(
    "config",
    [
        [],
        [entry(kind())],
        [entry(kind(sharing=None))],
        [entry(kind(), "gpu"), entry(kind(), "gpu")],
        [entry(kind("MigDeviceConfig"), source="FromClass"), entry(kind())],
        [entry(kind("MigDeviceConfig"))],
        [entry({"whatever": 1}, driver="dra.net")],
        [entry(kind("MigDeviceConfig"), "gpu", source="FromClass"), entry(kind(), "gpu")],
    ],
    ids=["none", "empty", "null", "repeated", "class of mig", "all of mig", "other driver", "overridden"],
)
def test_accepted(node: Any, config: list[Any]) -> None:
    assert node.engine().prepare(node.allocate("a", {"device": GPU0}, config=config))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (kind(sharing={}), r"\.sharing\.strategy: it is required"),
        (kind(sharin={}), r": GpuConfig has no field 'sharin'"),
        (kind("VfioDeviceConfig"), r"\.kind: VfioDeviceConfig cannot be used with this driver: GPUs are not"),
        (
            kind("ComputeDomainChannelConfig", domainID="x"),
            r"\.kind: ComputeDomainChannelConfig cannot be used",
        ),
        (
            kind("ComputeDomainDaemonConfig", domainID="x"),
            r"\.kind: ComputeDomainDaemonConfig cannot be used",
        ),
        (kind("gpuconfig"), r"\.kind: expected GpuConfig or MigDeviceConfig, not 'gpuconfig'"),
        ({"kind": "GpuConfig"}, rf"\.apiVersion: expected {API}, not None"),
        (
            {**kind(), "apiVersion": "gpu.nvidia.com/v1alpha1"},
            r"\.apiVersion: expected .*, not 'gpu.nvidia.com",
        ),
        (kind(["GpuConfig"]), r"\.kind: expected GpuConfig or MigDeviceConfig, not a list"),
        (None, " must be an object with apiVersion"),
        ([], " must be an object with apiVersion"),
        ("GpuConfig", " must be an object with apiVersion"),
    ],
)
def test_refused_with_the_json_path(node: Any, parameters: Any, message: str) -> None:
    engine = node.engine()

    with pytest.raises(ConfigError, match=f"^{PARAMETERS}{message}"):
        engine.prepare(node.allocate("a", {"device": GPU0}, config=[entry(parameters)]))

    assert (node.spec_files(), node.record_files(), engine.held()) == ([], [], ())


def test_the_class_is_named_where_the_mistake_is_its(node: Any) -> None:
    config = [entry(kind(x=1), source="FromClass")]

    with pytest.raises(
        ConfigError, match=rf"{PARAMETERS} \(from the DeviceClass\): GpuConfig has no field 'x'"
    ):
        node.engine().prepare(node.allocate("a", {"device": GPU0}, config=config))


def test_a_mistake_in_the_second_entry_leaves_the_first_undone(node: Any) -> None:
    engine = node.engine()
    ref = node.allocate(
        "a",
        {"request": "x", "device": GPU0},
        {"request": "y", "device": GPU1},
        config=[entry(kind(), "x"), entry(kind(unknown=True), "y")],
    )

    with pytest.raises(
        ConfigError, match=r"config\[1\]\.opaque\.parameters: GpuConfig has no field 'unknown'"
    ):
        engine.prepare(ref)

    assert (node.spec_files(), node.record_files()) == ([], [])


@pytest.mark.parametrize("named", ["gpu", "gpu/large"])
def test_a_kind_for_another_type_of_device_is_refused_where_it_names_the_request(
    node: Any, named: str
) -> None:
    ref = node.allocate(
        "a", {"request": "gpu/large", "device": GPU0}, config=[entry(kind("MigDeviceConfig"), named)]
    )

    with pytest.raises(
        ConfigError,
        match=f"a MigDeviceConfig cannot be applied to device {GPU0} of request gpu/large, which is of type gpu",
    ):
        node.engine().prepare(ref)


def test_configuration_of_an_alternative_that_was_not_chosen_does_not_matter(node: Any) -> None:
    ref = node.allocate(
        "a", {"request": "gpu/whole", "device": GPU0}, config=[entry(kind("VfioDeviceConfig"), "gpu/vfio")]
    )

    assert node.engine().prepare(ref)


def test_configuration_that_is_not_opaque_is_refused(node: Any) -> None:
    ref = node.allocate("a", {"device": GPU0}, config=[{"source": "FromClaim", "requests": []}])

    with pytest.raises(ConfigError, match=r"config\[0\] is not opaque"):
        node.engine().prepare(ref)


def nested(depth: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for _ in range(depth):
        body = {"a": body}
    return body


@pytest.mark.parametrize(
    "parameters",
    [kind(x="y" * 10_000), {**kind(), "ß\n" * 3000: 1}, kind(x=nested(900)), kind(sharing=nested(900))],
    ids=["long", "unicode", "unknown and deep", "sharing and deep"],
)
def test_large_configuration_gets_a_short_answer(node: Any, parameters: Any) -> None:
    config = [entry(kind())] * 31 + [entry(parameters)]

    with pytest.raises(ConfigError) as caught:
        node.engine().prepare(node.allocate("a", {"device": GPU0}, config=config))

    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_sharing_is_refused_where_nothing_could_do_it(node: Any) -> None:
    config = [entry(kind(sharing={"strategy": "MPS"}))]
    ref = node.allocate("a", {"device": GPU0}, config=config)

    with pytest.raises(ClaimError, match=r"config\[0\].*\.sharing: this node has nothing that could do it"):
        node.engine().prepare(ref)

    assert ([], []) == (node.spec_files(), node.record_files())
