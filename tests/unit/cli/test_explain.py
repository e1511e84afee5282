"""`dra-driver explain -f`: the questions that people have asked, and their answers."""

import subprocess
import sys
from typing import Any

import pytest
import yaml

MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
GPU = 'device.attributes["gpu.nvidia.com"]'


def test_a_pod_whose_claim_fits_is_fine(commands: Any, make: Any) -> None:
    file = commands.write(
        make.slice("n1", make.device("a")), make.template("one"), make.pod("p", template="one")
    )

    ran = commands.run("explain", "-f", file)

    assert 0 == ran.code
    assert ran.out.startswith("Pod default/p can be scheduled, on n1\n")
    assert "note: no DeviceClass is given, so those of this driver are assumed" in ran.err


def test_each_selector_says_how_many_devices_it_kept(commands: Any, make: Any) -> None:
    """kubernetes/kubernetes#137528: one of two selectors matches nothing, and nobody said which."""
    gpus = (make.device(f"gpu-{index}", "40Gi", productName="NVIDIA A100-SXM4-40GB") for index in range(4))
    request = make.request(
        f"{GPU}.productName == 'NONEXISTENT'", f"{MEMORY}.compareTo(quantity('40Gi')) >= 0"
    )
    file = commands.write(make.slice("n1", *gpus), make.claim("c", request))

    ran = commands.run("explain", "claim", "c", "-f", file, "-o", "json")

    assert 1 == ran.code
    assert [("class gpu.nvidia.com", 0, 4, 4), ("request gpu", 0, 0, 4), ("request gpu", 1, 4, 4)] == [
        (one["owner"], one["index"], one["kept"], one["of"]) for one in ran.data["selectors"]
    ]
    assert "request gpu, selector 0\t0 of 4" in commands.run("explain", "-f", file).out


def test_an_attribute_that_some_devices_lack_comes_with_its_guard(commands: Any, make: Any) -> None:
    """kubernetes/kubernetes#125826: one device without the attribute keeps the Pod from all nodes."""
    file = commands.write(
        make.slice("a", make.device("gpu-0", uuid="1", foo="x")),
        make.slice("b", make.device("gpu-0", uuid="2")),
        make.claim("c", make.request(f"{GPU}.foo == 'x'")),
    )

    ran = commands.run("explain", "claim", "c", "-f", file, "-o", "json")

    (fits, fails) = ran.data["nodes"]
    assert (["a"], True, ["b"]) == (fits["nodes"], fits["fits"], fails["nodes"])
    (device,) = fails["requests"][0]["devices"]
    guarded = f"has({GPU}.foo) && {GPU}.foo == 'x'"
    assert ("gpu-0", "error", f"write {guarded}") == (
        device["device"],
        device["blockers"][0]["kind"],
        device["blockers"][0]["fix"],
    )
    assert [guarded] == [change["after"] for change in ran.data["changes"]]
    assert "The scheduler says: claim default/c: selector #0: CEL runtime error: no such key: foo" in (
        commands.run("explain", "claim", "c", "-f", file).out
    )


def test_an_80_gb_card_has_less_than_80_gi(commands: Any, make: Any) -> None:
    file = commands.write(
        make.slice("n1", make.device("h100")),
        make.claim("c", make.request(f"{MEMORY}.isGreaterThan(quantity('80Gi'))")),
    )

    out = commands.run("explain", "claim", "c", "-f", file).out

    assert "memory 81559Mi (79.65Gi) is below 80Gi" in out
    assert "1. request gpu: selector 0: compare memory with 79Gi instead of 80Gi (fits on n1)" in out
    assert f"{MEMORY}.isGreaterThan(quantity('79Gi'))" in out


def test_an_invented_domain_and_memory_as_an_attribute_are_told(commands: Any, make: Any) -> None:
    expression = 'device.attributes["gpu-driver.example.com"].memory >= "16Gi"'
    file = commands.write(make.slice("n1", make.device("a")), make.claim("c", make.request(expression)))

    out = commands.run("explain", "claim", "c", "-f", file).out

    assert (
        'nothing has the domain "gpu-driver.example.com"; did you mean "gpu.nvidia.com"? memory is a capacity'
        in out
    )
    assert f'has({MEMORY}) && {MEMORY}.compareTo(quantity("40Gi")) >= 0' in out


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            {"name": "gpu", "deviceClassName": "gpu.nvidia.com"},
            'unknown field "spec.devices.requests[0].deviceClassName"',
        ),
        (
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "gpu.nvidia.com",
                    "selectors": [
                        {"cel": {"expression": 'device.attributes["memory"].quantity().value() >= 24'}}
                    ],
                },
            },
            "selectors[0].cel.expression: Invalid value",
        ),
    ],
    ids=["v1beta1 shape under v1", "no such function"],
)
def test_what_an_api_server_refuses_is_bad_input(commands: Any, make: Any, request_: Any, said: str) -> None:
    ran = commands.run("explain", "-f", commands.write(make.claim("c", request_)))

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err


def test_a_version_with_a_leading_zero_is_told_with_its_right_spelling(commands: Any, make: Any) -> None:
    request = make.request(f"{GPU}.driverVersion.compareTo(semver('550.127.08')) >= 0")
    device = make.device("a")
    device["attributes"]["driverVersion"] = {"version": "580.159.4"}

    ran = commands.run("explain", "-f", commands.write(make.slice("n1", device), make.claim("c", request)))

    assert 1 == ran.code
    assert '"550.127.08" is no semantic version' in ran.out
    assert f"write {GPU}.driverVersion.compareTo(semver('550.127.8')) >= 0" in ran.out


def test_a_missing_class_is_named_with_those_that_there_are(commands: Any, make: Any) -> None:
    names = ("compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com")
    classes = (make.device_class(name, "true") for name in names)
    file = commands.write(make.slice("n1", make.device("a")), *classes, make.claim("c"))

    ran = commands.run("explain", "claim", "c", "-f", file)

    assert 1 == ran.code
    assert "there is no DeviceClass gpu.nvidia.com" in ran.out
    assert "install the classes of this driver: kubectl apply -k deploy/" in ran.out


def test_of_two_templates_the_absent_one_is_named(commands: Any, make: Any) -> None:
    pod = make.pod("p", template="there")
    pod["spec"]["resourceClaims"].append({"name": "nic", "resourceClaimTemplateName": "absent"})
    file = commands.write(make.slice("n1", make.device("a")), make.template("there"), pod)

    ran = commands.run("explain", "pod", "p", "-f", file)

    assert 1 == ran.code
    assert (
        "error: claim nic of the Pod: there is no ResourceClaimTemplate default/absent; there is there"
        in ran.out
    )


def test_an_allocated_claim_shows_node_device_model_uuid_and_pods(commands: Any, make: Any) -> None:
    claim = make.claim("c")
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1/gpu", "device": "gpu-3"}
    only = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "1"}],
    }
    device = make.device("gpu-3", productName="NVIDIA H100 80GB HBM3", uuid="GPU-1")
    ran = commands.run("explain", "claim", "c", "-f", commands.write(make.slice("n1", device), claim))

    rows = [line.split() for line in ran.out.splitlines() if "gpu-3" in line]

    assert 0 == ran.code
    assert [
        [
            "default/c",
            "allocated,reserved",
            "n1",
            "default/train",
            "gpu",
            "gpu-3",
            "NVIDIA",
            "H100",
            "80GB",
            "HBM3",
            "GPU-1",
        ]
    ] == rows


def test_names_of_another_drivers_attributes_are_answered(commands: Any, make: Any) -> None:
    numa = {"resource.kubernetes.io/numaNode": 0}
    nic = make.device("eth1", "1Gi", **{"type": "nic", "numaNode": 0, **numa})
    file = commands.write(
        make.device_class("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'"),
        make.device_class("nic", "device.driver == 'dra.net'"),
        make.slice("n1", make.device("gpu-0", numa=0, **numa)),
        make.slice("n1", nic, driver="dra.net"),
        make.claim(
            "c",
            make.request(),
            {"name": "nic", "exactly": {"deviceClassName": "nic"}},
            constraints=[{"requests": ["gpu", "nic"], "matchAttribute": "gpu.nvidia.com/numa"}],
        ),
    )

    out = commands.run("explain", "claim", "c", "-f", file).out

    assert "no device for request nic has the attribute gpu.nvidia.com/numa" in out
    assert "all devices of its requests have resource.kubernetes.io/numaNode" in out


def test_shares_are_not_enforced(commands: Any, make: Any) -> None:
    request = make.request(capacity={"requests": {"memory": "40Gi"}})
    device = make.device("a", "80Gi", allowMultipleAllocations=True)

    out = commands.run(
        "explain", "-f", commands.write(make.slice("n1", device), make.claim("c", request))
    ).out

    assert "nothing keeps a container from using more" in out


def test_files_without_devices_are_told(commands: Any, make: Any) -> None:
    ran = commands.run("explain", "-f", commands.write(make.claim("c")))

    assert 1 == ran.code
    assert "cannot be allocated: there are no nodes" in ran.out
    assert "note: the files have no ResourceSlice, so there are no devices" in ran.err


def test_a_dump_is_reported_the_same_in_whatever_order_it_comes(commands: Any, make: Any) -> None:
    """bergerx/kubectl-status#682 and others: a view of slices, claims and classes that can be compared."""
    objects = [
        make.device_class("gpu.nvidia.com", 'device.driver == "gpu.nvidia.com"'),
        make.slice("n1", make.device("gpu-0"), make.device("gpu-1", "40Gi")),
        make.slice("n2", make.device("gpu-0", "40Gi")),
    ]
    claim = make.claim(
        "c", make.request("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1Ti'))")
    )

    first, second = (
        commands.run("explain", "-f", commands.write(*given, claim)).out for given in (objects, objects[::-1])
    )

    assert first == second
    assert "n1" in first


def test_yaml_says_what_json_says(commands: Any, make: Any) -> None:
    file = commands.write(make.slice("n1", make.device("a")), make.claim("c", make.request(count=2)))

    as_json = commands.run("explain", "-f", file, "-o", "json").data
    as_yaml = yaml.safe_load(commands.run("explain", "-f", file, "-o", "yaml").out)

    assert as_json == as_yaml
    assert (False, "default/c") == (as_json["fine"], as_json["name"])


def test_all_pods_workloads_and_unused_claims_of_files_are_explained(commands: Any, make: Any) -> None:
    file = commands.write(
        make.slice("n1", make.device("a")),
        make.template("used"),
        make.template("unused"),
        make.claim("named"),
        make.claim("alone"),
        make.pod("p", claim="named"),
        make.deployment("d", 3, template="used"),
    )

    items = commands.run("explain", "-f", file, "-o", "json").data["items"]

    assert [("pod", "p"), ("pod", "d"), ("claim", "alone"), ("template", "unused")] == [
        (one["kind"], one["name"].partition("/")[2]) for one in items
    ]


def test_many_nodes_and_reasons_are_cut_short_in_the_table_and_whole_in_json(
    commands: Any, make: Any
) -> None:
    slices = [make.slice(f"n{index:02}", make.device("a", f"{index + 1}Gi")) for index in range(30)]
    file = commands.write(*slices, make.claim("c", make.request(f"{MEMORY}.isGreaterThan(quantity('80Gi'))")))

    ran = commands.run("explain", "-f", file)

    assert "10 more" in ran.out
    assert 30 == len(commands.run("explain", "-f", file, "-o", "json").data["nodes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "say what to explain"),
        (["explain", "node", "n1", "-f", "FILE"], "there is nothing to explain about a node"),
        (["explain", "pod", "-f", "FILE"], "say which pod"),
        (
            ["explain", "pod", "absent", "-f", "FILE"],
            "there is no Pod default/absent; namespace default has none at all: -n says which namespace",
        ),
        (["explain", "claim", "absent", "-f", "FILE"], "there is no ResourceClaim default/absent"),
        (["explain", "claim/absent", "-f", "FILE", "-n", "team"], "there is no ResourceClaim team/absent"),
        (
            ["explain", "-f", "FILE"],
            "the files have no Pod, workload, ResourceClaim or ResourceClaimTemplate",
        ),
        (["explain", "-f", "FILE", "-o", "xml"], "there is no output format xml"),
        (["explain", "pod", "p"], "there is no cluster to ask"),
        (["explain", "pod", "p", "--kubeconfig", "/nonexistent"], "/nonexistent"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(
    commands: Any, make: Any, arguments: list[str], said: str
) -> None:
    file = commands.write(make.slice("n1", make.device("a")))

    ran = commands.run(*(file if argument == "FILE" else argument for argument in arguments))

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err


def test_a_cluster_that_does_not_answer_is_unreachable(commands: Any, make: Any) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }

    ran = commands.run("explain", "pod", "p", "--kubeconfig", commands.write(config))

    assert (3, "") == (ran.code, ran.out)
    assert "no answer from http://127.0.0.1:1" in ran.err


def test_asking_a_cluster_loads_nothing_that_only_files_need() -> None:
    program = (
        "import sys, dra_driver.cli.main, dra_driver.cli.explain\n"
        "print([name for name in ('dra_driver.embedded', 'structlog', 'grpc', 'kubernetes') if name in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == ran.stdout
