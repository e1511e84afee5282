import subprocess
import sys

_CODE = (
    "import sys, threading\nfrom dra_driver.process import logs, running\nlogs.configure('text', 'info')\n"
    "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit({})\nsys.exit(running.end(3))"
)


def _end(target: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", _CODE.format(target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_thread_that_hangs_neither_keeps_a_process_nor_takes_its_exit_code() -> None:
    ended = _end("threading.Event().wait")

    assert 3 == ended.returncode
    assert ended.stderr.endswith(' level=warning event="ended under calls that hang"\n')


def test_a_thread_that_ends_is_waited_for() -> None:
    ended = _end("lambda: print('over')")

    assert (3, "over\n", "") == (ended.returncode, ended.stdout, ended.stderr)
