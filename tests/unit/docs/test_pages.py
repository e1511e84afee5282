"""Pages say what is so: links lead somewhere, examples are valid, names exist."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dra_driver.config.node import MigMode, NodeConfig, load
from dra_driver.config.opaque import decode
from dra_driver.controller import pages as controller_pages
from dra_driver.controller.flags import FLAGS as CONTROLLER_FLAGS
from dra_driver.devices.build import build_devices
from dra_driver.devices.catalogue import ATTRIBUTES
from dra_driver.inventory.faults import read_faults
from dra_driver.inventory.profile import load_profile, profile_names
from dra_driver.inventory.simulated import SimulatedBackend
from dra_driver.node import pages as generated
from dra_driver.node.flags import FLAGS
from dra_driver.resource.validation import validate
from dra_driver.selectors import compile_selector, device_value, selector
from dra_driver.sharing import mps, nvidia_smi
from dra_driver.slices.pack import pack

ROOT = Path(__file__).parents[3]
OTHERS_FLAGS = {"--build-arg", "--device", "--gpu-reset"}  # of podman, ctr and nvidia-smi
OTHERS_VARIABLES = {
    "NVIDIA_VISIBLE_DEVICES",
    "KUBERNETES_SERVICE_HOST",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "EXCLUSIVE_PROCESS",  # a compute mode
}
# Rooms and modules that the node plugin does not load, and calls that log at level error or above.
NOT_ON_NODES = {"cli", "controller", "embedded", "events", "leases"}
ACT_ON = ("log.error", "log.exception", "get_logger(__name__).critical")
# What stands in the page where the program fills in a value.
FILLED_IN = {
    "--node-name (or NODE_NAME)": "--... (or ...)",
    "libnvidia-ml.so.1 was": "... was",
    "for 10 s": "for ... s",
    "allows 107": "allows ...",
    "a GpuConfig cannot": "a ... cannot",
    "of type mig": "of type ...",
    "cannot get ResourceClaim ...": "cannot ...",
    "cannot ... ResourceSlice ...": "cannot ...",
    " (403)": "...",
    "is held by claim ...": "is held by ...",
    "of the same GPU is held by": "of the same GPU... is held by",
    "held by claim": "held by",
    "/dev/... does not exist": "... not exist",
    ".../checkpoint.json of": "... of",
    "unrecognized arguments: ...": "...",  # argparse's
    "'...'": "...",
}


def test_every_link_leads_to_a_file_and_a_heading_that_exist(pages: Any, page: Any) -> None:
    broken = []
    for source in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", source.prose):
            path, _, anchor = target.partition("#")
            file = (source.path.parent / path).resolve() if path else source.path
            known = page.get(str(file.relative_to(ROOT)))
            if not file.exists() or (anchor and (known is None or anchor not in known.anchors)):
                broken.append(f"{source.name}: {target}")

    assert [] == broken


def test_every_page_is_in_the_index(pages: Any, page: Any) -> None:
    index = page["docs/README.md"].text

    missing = [p.name for p in pages if p.path.is_relative_to(ROOT / "docs") and p.path.name not in index]

    assert [] == [name for name in missing if name != "docs/README.md"]


def test_every_resource_object_would_be_accepted_by_an_api_server(pages: Any) -> None:
    objects = [
        (source.name, document)
        for source in pages
        for document in source.documents()
        if str(document.get("apiVersion", "")).startswith("resource.k8s.io/")
    ]

    problems = [
        (name, document["metadata"]["name"], str(problem))
        for name, document in objects
        for problem in validate(document, compile_selector=compile_selector)
    ]

    assert [] == problems
    assert len(objects) > 10


@pytest.mark.parametrize("profile", profile_names())
def test_no_selector_of_an_example_fails_on_a_gpu_of_any_simulated_node(pages: Any, profile: str) -> None:
    inventory = SimulatedBackend(load_profile(profile), "n1").scan()
    gpus = [device_value("gpu.nvidia.com", device.as_dict()) for device in build_devices(inventory)]
    expressions = [
        e for source in pages for d in source.documents() for e in _expressions(d, "gpu.nvidia.com")
    ]

    answers = {selector(expression).matches(gpu) for expression in expressions for gpu in gpus}

    assert answers <= {True, False}
    assert expressions


def _expressions(node: Any, device_class: str) -> list[str]:
    """Selectors of the requests for a class."""
    if isinstance(node, list):
        return [found for item in node for found in _expressions(item, device_class)]
    if not isinstance(node, dict):
        return []
    if node.get("deviceClassName") == device_class:
        return [s["cel"]["expression"] for s in node.get("selectors", ())]
    return [found for value in node.values() for found in _expressions(value, device_class)]


def test_the_profiles_and_faults_that_are_shown_can_be_read(page: Any, tmp_path: Path) -> None:
    blocks = page["docs/simulated-nodes.md"].blocks("yaml")
    path = tmp_path / "node.yaml"
    gpus, faults = [], []
    for block in blocks:
        path.write_text(block)
        if "driver:" in block:
            gpus.append(len(load_profile(path).gpus))
        else:
            faults.append(len(read_faults(path).gpus.by_gpu))

    assert ([1, 1], [2]) == (gpus, faults)


def test_the_page_of_simulated_nodes_names_every_profile(page: Any) -> None:
    assert set(profile_names()) <= set(page["docs/simulated-nodes.md"].codes)


def test_every_flag_and_variable_that_is_named_exists(pages: Any) -> None:
    table = (*FLAGS, *CONTROLLER_FLAGS)
    flags = {f"--{name}" for flag in table for name in (flag.name, *flag.aliases)}
    for command in ("demo", "explain", "lint", "simulate"):
        flags |= set(re.findall(r"--[a-z-]+", _output(command, "--help")))
    flags |= OTHERS_FLAGS
    variables = {flag.name.replace("-", "_").upper() for flag in table} | OTHERS_VARIABLES
    variables |= {variable for flag in table for variable in flag.variables}

    named = {flag for source in pages for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", source.text)}
    set_ = {code for source in pages for code in source.codes if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", code)}

    assert (set(), set()) == (named - flags, set_ - variables)


def test_every_command_that_is_named_exists(pages: Any) -> None:
    commands = set(re.findall(r"^  ([a-z-]+) ", _output("--help"), re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = [code for source in pages for code in (*source.codes, *source.blocks("sh"))]
    used = {command for code in named for command in re.findall(r"^dra-driver ([a-z][a-z-]*)", code)}
    made = {target for code in named for target in re.findall(r"^make ([a-z]+)", code)}

    assert (set(), set()) == (used - commands, made - targets)
    assert {"kubelet-plugin", "profiles"} <= used


def _output(*arguments: str) -> str:
    command = [sys.executable, "-m", "dra_driver", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    "heading",
    [
        "The Pod is scheduled and does not start",
        "The plugin is not ready",
        "The plugin does not start",
        "No GPUs on a node that has some",
        "Slices lack something",
    ],
)
def test_the_texts_of_the_troubleshooting_page_are_the_programs(page: Any, heading: str) -> None:
    said = _texts(ROOT / "dra_driver")

    quoted = page["docs/troubleshooting.md"].table_column(heading)
    foreign = [(text, part) for text in quoted for part in _parts(text) if part not in said]

    assert [] == foreign
    assert quoted


def _parts(text: str) -> list[str]:
    """The pieces of a quoted text between the values that the program fills in."""
    for shown, written in FILLED_IN.items():
        text = text.replace(shown, written)
    return [part for piece in text.split("...") if len(part := piece.strip(" ,:;()")) > 3]


def _texts(package: Path) -> str:
    """All literal texts of the package, those of one expression joined as Python joins them."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in package.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return "\n".join(node.value for node in nodes if isinstance(node.value, str))


def test_the_operations_page_shows_log_events_that_exist(page: Any) -> None:
    said = _texts(ROOT / "dra_driver")
    rows = [line for line in page["docs/operations.md"].text.splitlines() if line.startswith("| **")]

    events = [code for row in rows for code in re.findall(r"`([^`]+)`", row.rsplit(" | ", 1)[-1])]
    foreign = [(text, part) for text in events for part in _parts(text) if part not in said]

    assert [] == [item for item in foreign if not item[0].startswith(("dra_driver_", "it is of version N"))]
    assert events


def test_the_operations_page_explains_every_event_to_act_on(page: Any) -> None:
    files = (
        file for file in (ROOT / "dra_driver").rglob("*.py") if not NOT_ON_NODES & {*file.parts, file.stem}
    )
    calls = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(ACT_ON)
    ]

    events = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}

    assert set() == events - set(page["docs/operations.md"].codes)
    assert len(events) > 10


def test_the_reference_pages_are_what_the_program_says(page: Any) -> None:
    assert generated.render_flags() == page["docs/reference/flags.md"].text
    assert generated.render_metrics() == page["docs/reference/metrics.md"].text
    assert controller_pages.render_flags() == page["docs/reference/controller-flags.md"].text
    assert controller_pages.render_metrics() == page["docs/reference/controller-metrics.md"].text


def test_every_metric_that_is_named_exists(pages: Any) -> None:
    reference = generated.render_metrics() + controller_pages.render_metrics()

    named = {code for p in pages for code in p.codes if code.startswith("dra_driver_")}

    assert set() == {code for code in named if f"`{code.split(' ')[0].split('{')[0]}`" not in reference}


def test_every_configuration_of_an_example_is_one_that_the_driver_takes(pages: Any) -> None:
    entries = [
        (entry["opaque"]["parameters"], source.name)
        for source in pages
        for document in source.documents()
        for entry in _entries(document)
        if entry["opaque"]["driver"] == "gpu.nvidia.com"
    ]

    assert len(entries) > 2
    assert all(decode(parameters, name) for parameters, name in entries)


def _entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Configuration of a class, a claim or a template."""
    if document.get("kind") not in {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate"}:
        return []
    spec = document["spec"]
    spec = spec.get("spec", spec)
    entries: list[dict[str, Any]] = spec.get("config", []) + spec.get("devices", {}).get("config", [])
    return entries


def test_the_node_configuration_that_is_shown_can_be_read(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    block, _ = page["docs/mig.md"].blocks("yaml")
    path.write_text(block)
    config = load(path)
    gpu = load_profile("dgx-h100").gpus_on("n1")[0]

    assert (MigMode.DYNAMIC, 4) == (config.of(gpu).mig, config.of(gpu).shares)
    assert MigMode.OFF is config.of(load_profile("l4").gpus_on("n1")[0]).mig


@pytest.mark.parametrize(("profile", "gpus"), [("dgx-h100", 8), ("rtx-pro-6000", 16)])
def test_the_numbers_of_devices_that_are_cut_on_demand_are_those_of_a_node(
    page: Any, profile: str, gpus: int
) -> None:
    found = SimulatedBackend(load_profile(profile), "n").scan()
    many = tuple(
        replace(found.gpus[0], uuid=f"GPU-{n}", pci_address=f"0000:{n:02x}:00.0") for n in range(gpus)
    )
    devices = build_devices(replace(found, gpus=many), node=NodeConfig(MigMode.DYNAMIC))
    numbers = (len(devices), len(devices.counter_sets), len(pack(devices).contents))
    text = " ".join(page["docs/mig.md"].text.split())

    assert re.search(r"{} devices and {} counter sets in {}\b".format(*numbers), text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/sharing.md", f"Prepare waits for the daemon, at most {mps.READY_SECONDS:g} seconds"),
        ("docs/operations.md", f"each run of it ends after {nvidia_smi.SECONDS:g} seconds"),
    ],
)
def test_the_waits_that_are_told_are_those_of_the_program(page: Any, name: str, text: str) -> None:
    assert text in " ".join(page[name].text.split())


def test_every_mode_and_obstacle_is_explained(page: Any) -> None:
    (entry,) = [entry for entry in ATTRIBUTES if entry.name == "migObstacle"]

    assert {*MigMode, *entry.values} <= set(page["docs/mig.md"].codes)
