"""How commands end, whatever their streams, their locale and their user do."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dra_driver.cli.main import main

PROGRAM = [sys.executable, "-m", "dra_driver"]
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: EXPRESSION}}]}}]}}
"""


@pytest.fixture
def claim(tmp_path: Path) -> str:
    """A claim for a GPU of a name that ASCII cannot say."""
    path = tmp_path / "claim.yaml"
    name = "device.attributes['gpu.nvidia.com'].productName == 'Größe'"
    path.write_text(CLAIM.replace("EXPRESSION", f'"{name}"'), encoding="utf-8")
    return str(path)


def run(*arguments: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The program, with what a shell writes behind it."""
    command = ["sh", "-c", f'"$@" {shell}', "sh", *PROGRAM, *arguments]
    whole = {**os.environ, "PYTHONUNBUFFERED": "", **environment}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=whole, check=False)


@pytest.mark.parametrize(
    "arguments", [["lint", "-"], ["explain", "-f", "-"], ["convert", "-"], ["cdi", "validate", "-"]]
)
def test_a_closed_standard_input_is_no_empty_one(arguments: list[str]) -> None:
    ran = run(*arguments, shell="<&-")

    assert (2, "", "dra-driver: standard input is closed\n") == (ran.returncode, ran.stdout, ran.stderr)


def test_a_closed_output_leaves_the_exit_code(claim: str) -> None:
    ran = run("simulate", "-f", claim, "--nodes", "l40s", shell=">&-")

    assert (1, "") == (ran.returncode, ran.stdout)
    assert "Traceback" not in ran.stderr


def test_with_errors_closed_nothing_but_data_is_printed(claim: str) -> None:
    ran = run("simulate", "-f", claim, "--nodes", "l40s", "-o", "json", shell="2>&-")

    assert json.loads(ran.stdout)["complete"] is False


def test_a_full_disk_is_told(claim: str) -> None:
    ran = run("version", shell=">/dev/full")

    assert (3, "dra-driver: cannot write: No space left on device\n") == (ran.returncode, ran.stderr)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_fault(unbuffered: str) -> None:
    ran = run("profiles", shell="| true; exit 7", PYTHONUNBUFFERED=unbuffered)

    assert (7, "") == (ran.returncode, ran.stderr)


@pytest.mark.parametrize("form", ["lines", "json", "yaml"])
def test_output_is_utf_8_in_any_locale(claim: str, form: str) -> None:
    ran = run("simulate", "-f", claim, "--nodes", "l40s", "-o", form, LC_ALL="C", PYTHONIOENCODING="ascii")

    assert 1 == ran.returncode
    assert "Größe" in ran.stdout


@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_a_terminal_gets_nothing_to_obey(commands: Any, make: Any, command: str) -> None:
    claim = make.claim("c", make.request("device.driver == '\x1b[31m'"))

    ran = commands.run(command, "-f", commands.write(make.slice("n1", make.device("a")), claim))

    assert r"device.driver == '\x1b[31m'" in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lint", ""], "the name of a file is empty"),
        (["explain", "-f", ""], "the name of a file is empty"),
        (["lint", "a\n\x1b[31m"], r"a \x1b[31m does not exist"),
        (["convert", "absent.yaml"], "absent.yaml does not exist"),
        (["cdi", "validate", "/"], "/ cannot be read: Is a directory"),
        (["frobnicate"], "No such command 'frobnicate'; dra-driver --help says what there is"),
        (["lint", "--quick"], "No such option: --quick; dra-driver lint --help says what there is"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(commands: Any, arguments: list[str], said: str) -> None:
    ran = commands.run(*arguments)

    assert (2, "", f"dra-driver: {said}\n") == (ran.code, ran.out, ran.err)


@pytest.mark.parametrize("arguments", [[], ["cdi"]])
def test_without_a_command_there_is_the_help(commands: Any, arguments: list[str]) -> None:
    ran = commands.run(*arguments)

    assert (2, "") == (ran.code, ran.out)
    assert ran.err.startswith("Usage: dra-driver")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
@pytest.mark.parametrize(
    ("asked", "said"), [(".", "secret"), ("secret", "secret"), ("secret/a.yaml", "secret/a.yaml")]
)
def test_what_cannot_be_read_is_told_not_passed_over(
    tmp_path: Path, claim: str, monkeypatch: pytest.MonkeyPatch, capfd: Any, asked: str, said: str
) -> None:
    """Findings that are not made look like files without mistakes."""
    (tmp_path / "here" / "secret").mkdir(0o700, parents=True)
    monkeypatch.chdir(tmp_path / "here")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(main(["lint", asked]))

    assert 2 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert capfd.readouterr().err.endswith(f"{said} cannot be read: Permission denied\n")


def test_ctrl_c_ends_it_without_a_word() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "lint", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b" " * (1 << 20))  # more than a pipe holds: it is being read
    process.stdin.flush()
    process.send_signal(signal.SIGINT)

    out, error = process.communicate(timeout=30)

    assert (130, b"", b"") == (process.returncode, out, error)
