"""`dra-driver simulate`: who gets what, what waits, what is left, and what if."""

import re
from typing import Any

import pytest

from dra_driver.cli.simulated_nodes import nodes, parse
from dra_driver.errors import UsageError
from dra_driver.resource.validation import validate

GPU = 'device.attributes["gpu.nvidia.com"]'
Object = dict[str, Any]


def _simulate(commands: Any, *arguments: str) -> Any:
    return commands.run("simulate", *arguments, "-o", "json").data


def _got(outcome: Any) -> dict[str, list[str]]:
    """The devices of every Pod or claim, by its short name; pending ones have none."""
    return {
        step["name"].partition("/")[2]: [
            device["device"] for claim in step["claims"] for device in claim["devices"]
        ]
        for step in outcome["steps"]
    }


def _nodes(outcome: Any) -> dict[str, str | None]:
    return {step["name"].partition("/")[2]: step["node"] for step in outcome["steps"]}


def _codes(outcome: Any) -> set[str]:
    return {remark["code"] for waiting in outcome["waiting"] for remark in waiting["remarks"]}


def test_profiles_are_nodes_and_pods_go_where_the_fewest_are(commands: Any, make: Any) -> None:
    file = commands.write(make.template("one"), make.deployment("web", 3, template="one"))

    ran = commands.run("simulate", "-f", file, "--nodes", "dgx-h100=1,l40s=2", "-o", "table")

    assert 0 == ran.code
    rows = [line.split()[:3] for line in ran.out.splitlines()[1:4]]
    assert [
        ["1", "default/web-0", "dgx-h100-1"],
        ["2", "default/web-1", "l40s-1"],
        ["3", "default/web-2", "l40s-2"],
    ] == rows
    assert "NVIDIA L40S            2      8        2 (25%)  6     3                    50%" in ran.out


def test_elsewhere_than_on_a_terminal_rows_are_lines_without_blanks(commands: Any, make: Any) -> None:
    two = make.request(count=2)
    file = commands.write(make.template("two", two), make.deployment("web", 1, template="two"))

    rows = [
        line.split("\t") for line in commands.run("simulate", "-f", file, "--nodes", "l4").out.splitlines()
    ]

    assert ["1", "default/web-0", "l4-1"] == rows[1][:3] == rows[2][:3]
    assert rows[1][5] != rows[2][5]


def test_simulated_gpus_are_cut_where_that_is_said(commands: Any, make: Any) -> None:
    profile = make.request(f'{GPU}.profile == "3g.40gb"')
    profile["exactly"]["deviceClassName"] = "mig.nvidia.com"
    file = commands.write(make.template("mig", profile), make.deployment("web", 17, template="mig"))

    cut = _simulate(commands, "-f", file, "--nodes", "dgx-h100", "--mig", "dynamic")
    config = commands.write(
        {"apiVersion": "config.dra-driver.io/v1alpha1", "kind": "NodeConfig", "gpus": [{"mig": "dynamic"}]}
    )
    more = _simulate(
        commands, "-f", file, "--nodes", "dgx-h100", "--add-nodes", "dgx-h100", "--config", config
    )

    assert 16 == sum(bool(devices) for devices in _got(cut).values())
    assert [] == more["waiting"]
    assert 17 == len(_simulate(commands, "-f", file, "--nodes", "dgx-h100")["waiting"][0]["names"])


def test_what_holds_the_place_of_a_partition_is_told(commands: Any, make: Any) -> None:
    profile = make.request(f'{GPU}.profile == "3g.40gb"')
    profile["exactly"]["deviceClassName"] = "mig.nvidia.com"
    cut = (make.template("mig", profile), make.deployment("web", 16, template="mig"))
    file = commands.write(*cut, make.template("whole"), make.pod("train", template="whole"))

    out = commands.run("simulate", "-f", file, "--nodes", "dgx-h100", "--mig", "dynamic").out

    assert "Pod default/train cannot be scheduled" in out
    assert re.search(r"memory-slice-\S+ .*taken by .*claim default/web-0-gpu of Pod default/web-0", out)


def test_a_mode_that_there_is_not_is_refused(commands: Any) -> None:
    ran = commands.run("simulate", "--nodes", "l4", "--mig", "often")

    assert (2, "") == (ran.code, ran.out)
    assert "--mig: 'often' is none of auto, static, dynamic, off" in ran.err


def test_what_stays_pending_is_explained_once_for_all_that_ask_for_the_same(commands: Any, make: Any) -> None:
    file = commands.write(make.template("one"), make.deployment("web", 7, template="one"))

    ran = commands.run("simulate", "-f", file, "--nodes", "l40s")

    assert 1 == ran.code
    assert (
        "Pod default/web-4 cannot be scheduled: no node has what it asks for (2 more ask for the same)"
        in ran.out
    )
    assert 1 == ran.out.count("in use by claim default/web-0-gpu of Pod default/web-0")


def test_three_pods_of_a_template_do_not_share_two_gpus(commands: Any, make: Any) -> None:
    """kubernetes-sigs/dra-driver-nvidia-gpu#459: time slices do not make more devices."""
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
    }
    config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    gpus = (make.device("gpu-0"), make.device("gpu-1"))
    file = commands.write(
        make.slice("n1", *gpus), make.template("one", config=config), make.deployment("d", 3, template="one")
    )

    outcome = _simulate(commands, "-f", file)

    assert {"d-0": ["gpu-0"], "d-1": ["gpu-1"], "d-2": []} == _got(outcome)
    (remark,) = (one for one in outcome["waiting"][0]["remarks"] if one["code"] == "claim-per-pod")
    assert "settings such as time slicing do not change that" in remark["text"]
    assert "resourceClaimName" in remark["fix"]
    assert "allow multiple allocations" in remark["fix"]


def test_two_pods_of_a_template_do_not_share_one_gpu(commands: Any, make: Any) -> None:
    """awslabs/ai-on-eks#338: an example that meant to share one GPU needed two."""
    file = commands.write(
        make.slice("n1", make.device("gpu-0")), make.template("one"), make.deployment("d", 2, template="one")
    )

    outcome = _simulate(commands, "-f", file)

    assert {"d-0": ["gpu-0"], "d-1": []} == _got(outcome)
    assert "claim-per-pod" in _codes(outcome)


def test_lists_match_where_they_are_known(commands: Any, make: Any) -> None:
    """kubernetes/kubernetes#140300: three devices that share NUMA node 2, behind a pair that shares node 1."""
    devices = [make.device(f"gpu-{index}") for index in range(1, 5)]
    for device, values in zip(devices, [[1, 2], [1], [2], [2]], strict=True):
        device["attributes"]["resource.kubernetes.io/numaNode"] = {"ints": values}
    constraint = {"matchAttribute": "resource.kubernetes.io/numaNode"}
    claim = make.claim("c", make.request(count=3), constraints=[constraint])
    file = commands.write(make.slice("n1", *devices), claim)

    assert {"c": ["gpu-1", "gpu-3", "gpu-4"]} == _got(_simulate(commands, "-f", file, "--list-attributes"))
    ran = commands.run("simulate", "-f", file)
    assert (2, True) == (ran.code, "exactly one value must be specified" in ran.err)


def test_two_pods_share_one_gpu_by_naming_one_claim(commands: Any, make: Any) -> None:
    file = commands.write(
        make.slice("n1", make.device("gpu-0")),
        make.claim("c"),
        make.pod("a", claim="c"),
        make.pod("b", claim="c"),
    )

    assert {"a": ["gpu-0"], "b": ["gpu-0"]} == _got(_simulate(commands, "-f", file))


def test_pods_share_a_device_that_allows_it_until_its_memory_is_used(commands: Any, make: Any) -> None:
    request = make.request(capacity={"requests": {"memory": "30Gi"}})
    file = commands.write(
        make.slice("n1", make.device("gpu-0", "80Gi", allowMultipleAllocations=True)),
        make.template("share", request),
        make.deployment("d", 3, template="share"),
    )

    outcome = _simulate(commands, "-f", file)

    assert ["gpu-0", "gpu-0"] == _got(outcome)["d-0"] + _got(outcome)["d-1"]
    assert [] == _got(outcome)["d-2"]
    assert [(20 << 30, 80 << 30)] == [
        (one["sharedBytesLeft"], one["sharedBytes"]) for one in outcome["usage"]
    ]


def test_an_error_on_one_node_keeps_a_pod_from_all(commands: Any, make: Any) -> None:
    file = commands.write(
        make.slice("a", make.device("gpu-0", foo="x")),
        make.slice("b", make.device("gpu-9")),
        make.template("t", make.request(f"{GPU}.foo == 'x'")),
        make.pod("p", template="t"),
    )

    outcome = _simulate(commands, "-f", file)

    assert {"p": None} == _nodes(outcome)
    (fits, fails) = outcome["waiting"][0]["nodes"]
    assert (["a"], True) == (fits["nodes"], fits["fits"])
    (device,) = fails["requests"][0]["devices"]
    assert ("gpu-9", "selector 0 fails: no such key: foo: this device has no foo") == (
        device["device"],
        device["blockers"][0]["text"],
    )


def _partitions(make: Any, *sizes: int) -> list[Object]:
    """A GPU of 7 slices as one node publishes it: whole, and partitions of these sizes at all their places."""
    slices = {f"memory-slice-{index}": {"value": "1"} for index in range(7)}

    def eats(first: int, size: int) -> list[Object]:
        counters = {f"memory-slice-{index}": {"value": "1"} for index in range(first, first + size)}
        return [{"counterSet": "gpu-0-counters", "counters": counters}]

    devices = [make.device("gpu-0", uuid="GPU-0", productName="A100", consumesCounters=eats(0, 7))]
    for size in sizes:
        devices += [
            make.device(
                f"gpu-0-mig-{size}g-{first}",
                type="mig",
                profile=f"{size}g",
                parentUUID="GPU-0",
                productName="A100",
                consumesCounters=eats(first, size),
            )
            for first in range(0, 8 - size, size)
        ]
    pool = {"name": "n1/gpu", "generation": 1, "resourceSliceCount": 2}
    counters = make.slice("n1", pool=pool, sharedCounters=[{"name": "gpu-0-counters", "counters": slices}])
    del counters["spec"]["devices"]
    counters["metadata"]["name"] = "counters"
    return [counters, make.slice("n1", *devices, pool=pool)]


def test_partitions_of_one_gpu_are_had_together(commands: Any, make: Any) -> None:
    requests = [
        make.request(f'{GPU}.profile == "{size}g"', name=f"r{size}", deviceClassName="mig.nvidia.com")
        for size in (4, 2, 1)
    ]
    claim = make.claim("c", *requests, constraints=[{"matchAttribute": "gpu.nvidia.com/parentUUID"}])
    file = commands.write(*_partitions(make, 1, 2, 4), claim)

    assert {"c": ["gpu-0-mig-4g-0", "gpu-0-mig-2g-4", "gpu-0-mig-1g-6"]} == _got(
        _simulate(commands, "-f", file)
    )


def test_a_partition_that_is_used_leaves_the_others_and_not_the_whole(commands: Any, make: Any) -> None:
    claim = make.claim("c", make.request(deviceClassName="mig.nvidia.com"))
    file = commands.write(*_partitions(make, 1), claim)

    usage = {one["model"]: (one["used"], one["free"]) for one in _simulate(commands, "-f", file)["usage"]}

    assert {"A100": (0, 0), "A100 1g": (1, 6)} == usage


def test_dropped_counters_are_told(commands: Any, make: Any) -> None:
    gpu = make.device("gpu-0", uuid="GPU-0")
    mig = make.device("gpu-0-mig-0", type="mig", parentUUID="GPU-0")
    file = commands.write(make.slice("n1", gpu, mig), make.claim("c", make.request(count=3)))

    assert "counters-dropped" in _codes(_simulate(commands, "-f", file))


class TestAll:
    def _all(self, commands: Any, make: Any, *devices: Object, **exactly: Any) -> Any:
        request = make.request(allocationMode="All", **exactly)
        return _simulate(commands, "-f", commands.write(make.slice("n1", *devices), make.claim("c", request)))

    def test_one_device_that_is_used_up_is_in_the_way(self, commands: Any, make: Any) -> None:
        shared = [make.device(name, "1", allowMultipleAllocations=True) for name in ("a", "b")]
        used = make.claim("used")
        result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1/gpu", "device": "a"}
        share = {"shareID": "c8a4ba6b-a7d1-4ed7-aa01-97b1a2f30e54", "consumedCapacity": {"memory": "1"}}
        used["status"] = {"allocation": {"devices": {"results": [{**result, **share}]}}}
        request = make.request(allocationMode="All", capacity={"requests": {"memory": "1"}})
        file = commands.write(make.slice("n1", *shared), used, make.claim("c", request))

        outcome = _simulate(commands, "-f", file)

        assert {"c": []} == _got(outcome)
        assert "capacity memory is short by 1: needs 1, 0 of 1 is left" in str(outcome["waiting"])

    def test_a_device_that_is_taken_is_in_the_way(self, commands: Any, make: Any) -> None:
        taken = make.claim("first")
        everything = make.claim("second", make.request(allocationMode="All"))
        file = commands.write(make.slice("n1", make.device("a"), make.device("b")), taken, everything)

        assert {"first": ["a"], "second": []} == _got(_simulate(commands, "-f", file))

    def test_of_no_device_at_least_one_is_needed(self, commands: Any, make: Any) -> None:
        outcome = self._all(commands, make, make.device("a", type="mig"))

        assert ["all", 1] == [
            outcome["waiting"][0]["nodes"][0]["requests"][0][key] for key in ("wanted", "missing")
        ]

    def test_the_next_alternative_is_taken_where_all_fails(self, commands: Any, make: Any) -> None:
        subs = [
            {"name": "all", "deviceClassName": "mig.nvidia.com", "allocationMode": "All"},
            {"name": "one", "deviceClassName": "gpu.nvidia.com"},
        ]
        claim = make.claim("c", {"name": "gpu", "firstAvailable": subs})

        outcome = _simulate(commands, "-f", commands.write(make.slice("n1", make.device("a")), claim))

        assert ["gpu/one"] == [one["request"] for one in outcome["steps"][0]["claims"][0]["devices"]]


def test_priority_comes_before_order_and_a_seed_makes_an_order_of_chance(commands: Any, make: Any) -> None:
    pods = [make.pod(name, template="one") for name in ("a", "b", "c", "d")]
    pods.append(make.pod("high", template="one", priority=10))
    file = commands.write(
        make.slice("n1", *(make.device(f"g{n}") for n in range(5))), make.template("one"), *pods
    )

    def order(*flags: str) -> list[str]:
        return list(_got(_simulate(commands, "-f", file, *flags)))

    assert ["high", "a", "b", "c", "d"] == order()
    assert order("--seed", "7") == order("--seed", "7")
    assert len({tuple(order("--seed", str(seed))) for seed in range(6)}) > 1
    assert {"high"} == {order("--seed", str(seed))[0] for seed in range(6)}


def test_extended_resources_become_claims(commands: Any, make: Any) -> None:
    pod = make.pod("old")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}

    outcome = _simulate(commands, "-f", commands.write(pod), "--nodes", "l40s")

    assert 2 == len(_got(outcome)["old"])


class TestWhatIf:
    @pytest.fixture
    def full(self, commands: Any, make: Any) -> Any:
        """Two nodes with a GPU each; `a` runs on n1, and `b` waits for an H100, which n1 has."""
        claim = make.claim("held")
        result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1/gpu", "device": "gpu-0"}
        claim["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
        }
        file = commands.write(
            make.slice("n1", make.device("gpu-0", productName="H100")),
            make.slice("n2", make.device("gpu-0", productName="T4")),
            claim,
            make.pod("a", claim="held", nodeName="n1"),
            make.template("h100", make.request(f"{GPU}.productName.contains('H100')")),
            make.pod("b", template="h100"),
        )
        return lambda *flags: _simulate(commands, "-f", file, *flags)

    def test_as_it_is(self, full: Any) -> None:
        assert {"b": None} == _nodes(full())

    def test_more_nodes(self, full: Any) -> None:
        assert {"b": "dgx-h100-1"} == _nodes(full("--add-nodes", "dgx-h100"))

    def test_a_claim_gone(self, full: Any) -> None:
        assert {"b": "n1"} == _nodes(full("--without-claim", "held"))

    def test_a_node_drained(self, full: Any) -> None:
        outcome = full("--drain", "n1")

        assert {"a": "n2", "b": None} == _nodes(outcome)
        assert [("H100", 0, 0), ("T4", 1, 0)] == [
            (one["model"], one["used"], one["free"]) for one in outcome["usage"]
        ]
        assert "node(s) were unschedulable" in str(outcome["waiting"])

    def test_a_taint_that_lets_be_what_is_there(self, full: Any) -> None:
        assert {"b": None} == _nodes(full("--taint", "n1/gpu-0:sick=yes:NoSchedule"))

    def test_a_taint_that_evicts(self, full: Any) -> None:
        outcome = full("--taint", "n1:sick:NoExecute")

        assert {"a": "n2", "b": None} == _nodes(outcome)
        assert "tainted sick:NoExecute" in str(outcome["waiting"])

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (["--drain", "n3"], "there is no node n3; did you mean n1?"),
            (["--without-claim", "hold"], "there is no claim default/hold; did you mean default/held?"),
            (["--taint", "n1"], "expected NODE[/DEVICE]:KEY[=VALUE]:EFFECT"),
            (["--taint", "n1:a:NoSuch"], "the effect is one of None, NoSchedule, NoExecute"),
            (["--taint", "n1/gpu-7:a:NoSchedule"], "node n1 has no device gpu-7"),
            (["--taint", "other:a:NoSchedule"], "there is no node other; there is n1"),
            (["--add-nodes", "dgx-h100=0"], "expected PROFILE=NUMBER"),
            (["--add-nodes", "no-such"], "no-such"),
        ],
    )
    def test_what_is_not_there_is_refused(
        self, commands: Any, make: Any, flags: list[str], said: str
    ) -> None:
        file = commands.write(make.slice("n1", make.device("gpu-0")), make.claim("held"))

        ran = commands.run("simulate", "-f", file, *flags)

        assert (2, "") == (ran.code, ran.out)
        assert said in ran.err


def test_workloads_of_absurd_size_are_refused(commands: Any, make: Any) -> None:
    file = commands.write(make.deployment("d", 10**9, template="x"), make.slice("n1", make.device("a")))

    ran = commands.run("simulate", "-f", file)

    assert (2, "dra-driver: more than 20000 Pods are asked for\n") == (ran.code, ran.err)


def test_without_nodes_and_a_cluster_there_is_nothing_to_simulate(commands: Any, make: Any) -> None:
    ran = commands.run("simulate", "-f", commands.write(make.claim("c")))

    assert 2 == ran.code
    assert "there is no cluster to ask: give --kubeconfig or set KUBECONFIG, or give nodes" in ran.err


def test_kinds_of_nodes_are_read() -> None:
    assert [("dgx-h100", 4), ("l40s", 1)] == parse("dgx-h100=4, l40s")


@pytest.mark.parametrize("text", ["", "=3", "a=", "a=-1", "a=x", "a=1,,b=2", "a=99999999", "a=²"])
def test_kinds_of_nodes_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected PROFILE=NUMBER"):
        parse(text)


def test_simulated_nodes_publish_what_an_api_server_takes() -> None:
    objects = list(nodes("dgx-a100-80=2,l4", taken={"dgx-a100-80-1"}))

    assert ["dgx-a100-80-2", "dgx-a100-80-3", "l4-1"] == [
        one["metadata"]["name"] for one in objects if one["kind"] == "Node"
    ]
    assert [] == [
        str(problem) for one in objects if one["kind"] == "ResourceSlice" for problem in validate(one)
    ]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("v1", "ReplicationController", {"replicas": 2}),
        ("batch/v1", "Job", {"parallelism": 2}),
        ("batch/v1", "CronJob", {"parallelism": 2}),
    ],
)
def test_whatever_makes_pods_is_so_many_pods(
    commands: Any, make: Any, api_version: str, kind: str, spec: Object
) -> None:
    deployment = make.deployment("d", 1, template="t")
    spec = {**spec, "template": deployment["spec"]["template"]}
    spec = {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec
    workload = {**deployment, "apiVersion": api_version, "kind": kind, "spec": spec}
    file = commands.write(make.slice("n1", make.device("a"), make.device("b")), make.template("t"), workload)

    assert {"d-0": ["a"], "d-1": ["b"]} == _got(_simulate(commands, "-f", file))


def test_a_daemon_set_is_passed_over_and_explained_as_one_pod(commands: Any, make: Any) -> None:
    workload = {**make.deployment("d", 1, template="t"), "kind": "DaemonSet"}
    file = commands.write(make.slice("n1", make.device("a")), make.template("t"), workload)

    simulated, explained = commands.run("simulate", "-f", file), commands.run("explain", "-f", file)

    assert "note: DaemonSet d is passed over: it has a Pod on each node" in simulated.err
    assert explained.out.startswith("Pod default/d can be scheduled, on n1\n")


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({}, "metadata.name is missing"),
        ({"name": ["d"]}, "Deployment ['d']: "),
        ("d", "metadata.name is missing"),
    ],
)
def test_a_workload_needs_a_name(commands: Any, make: Any, metadata: Any, said: str) -> None:
    workload = {**make.deployment("d", 1, template="t"), "metadata": metadata}

    ran = commands.run("simulate", "--nodes", "l40s", "-f", commands.write(workload))

    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err
