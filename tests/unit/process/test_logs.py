import fcntl
import json
import os
import subprocess
import sys

import pytest

_PRELUDE = "import structlog; from dra_driver.process import logs; logs.configure({!r}, 'info', node='n')\nlog = structlog.get_logger()\n"


def _run(format_: str, code: str, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-c", _PRELUDE.format(format_) + code],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


def test_an_event_is_one_line_with_the_constants_in_front() -> None:
    line = _run("text", "log.info('claim done', op='prepare', seconds=0.1)").stderr

    assert line.endswith(' level=info event="claim done" op=prepare node=n seconds=0.1\n')
    assert line.startswith("timestamp=")


def test_json_lines_parse_whatever_is_in_them() -> None:
    code = "log.warning('a\\nb', err='\\udcff', number=1); log.debug('hidden')"

    (line,) = _run("json", code).stderr.splitlines()

    assert {"event": "a\nb", "err": "\udcff", "number": 1, "level": "warning"}.items() <= json.loads(
        line
    ).items()


def test_lines_of_many_threads_do_not_mix() -> None:
    code = (
        "import threading\n"
        "def write(number):\n    for _ in range(200): log.info('x' * 500, number=number)\n"
        "threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    )

    lines = [json.loads(line) for line in _run("json", code).stderr.splitlines()]

    assert 1600 == len(lines)
    assert {"x" * 500} == {line["event"] for line in lines}


def test_a_reader_that_went_away_stops_nothing() -> None:
    code = "import os; os.close(2); log.error('nobody hears'); print('went on')"

    assert "went on\n" == _run("text", code, stdout=subprocess.PIPE).stdout


def test_a_value_that_is_more_than_a_word_is_quoted_and_stays_on_its_line() -> None:
    code = r"log.info('x', err='no \"a\"=b\r\nlevel=error', path='a\\b', none=None, yes=True, empty='')"

    (line,) = _run("text", code).stderr.splitlines()

    assert line.endswith(r'event=x node=n err="no \"a\"=b\r\nlevel=error" path="a\\b" none= yes=true empty=')


def test_fields_of_a_call_are_on_its_lines_and_on_no_other() -> None:
    code = (
        "with logs.Fields(op='prepare', claim='ns/c'):\n    log.info('in'); log.info('own', claim='other')\n"
        "log.info('out')"
    )

    lines = [line.partition("level=info ")[2] for line in _run("text", code).stderr.splitlines()]

    assert [
        "event=in op=prepare claim=ns/c node=n",
        "event=own op=prepare claim=other node=n",
        "event=out node=n",
    ] == lines


def test_fields_within_fields_are_on_a_line_with_those_around_them() -> None:
    code = "with logs.Fields(op='prepare', claim='a'), logs.Fields(claim='b'):\n    log.info('in')"

    assert _run("text", code).stderr.endswith("event=in op=prepare claim=b node=n\n")


_BREAKERS = ["\x1b[2J", "\x00", "\x7f", "\x85", "\x9b31m", "\u2028", "\u2029", "\ufeff"]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_nothing_that_a_terminal_or_a_reader_of_lines_obeys_is_written_as_it_is(format_: str) -> None:
    code = f"for text in {_BREAKERS!r}: log.info('x', claim='ä b', err=text)"

    lines = _run(format_, code).stderr.splitlines()

    assert all(line.isprintable() for line in lines)
    if format_ == "json":
        assert _BREAKERS == [json.loads(line)["err"] for line in lines]
    else:
        assert _BREAKERS == [json.loads(line.partition("err=")[2]) for line in lines]
        assert all('claim="ä b"' in line for line in lines)


_VALUES = (
    "class Silent(Exception):\n    def __str__(self): raise ZeroDivisionError\n    __repr__ = __str__\n"
    "circle, deep = {}, []\ncircle['a'] = circle\nfor _ in range(99999): deep = [deep]\n"
)


_WRITTEN = {
    "Silent()": "(Silent without a text)",
    "{'a': Silent()}": "(dict without a text)",
    "circle": "{'a': {...}}",
    "deep": "(list without a text)",
    "10 ** 5000": "(int without a text)",
    "float('nan')": "nan",
    "{1, }": "{1}",
    "'x' * 5_000_000": "x" * 5_000_000,
}


def test_a_value_that_cannot_be_written_never_fails_who_logs() -> None:
    code = _VALUES + "".join(f"log.info('x', claim='c', err={value})\n" for value in _WRITTEN)

    json_lines = [json.loads(line) for line in _run("json", code).stderr.splitlines()]
    text_lines = _run("text", code).stderr.splitlines()

    assert [("c", written) for written in _WRITTEN.values()] == [
        (line["claim"], line["err"]) for line in json_lines
    ]
    assert list(_WRITTEN.values()) == [line.partition("err=")[2].strip('"') for line in text_lines]


def test_a_library_may_log_with_wrong_arguments_and_levels_of_its_own() -> None:
    code = (
        "import logging\nlib = logging.getLogger('lib')\n"
        "lib.warning('%d left', 'two'); lib.log(35, 'own level'); lib.error(Silent())"
    )

    lines = [json.loads(line) for line in _run("json", _VALUES + code).stderr.splitlines()]

    assert [
        ("warning", "%d left ('two',)"),
        ("warning", "own level"),
        ("error", "(Silent without a text) ()"),
    ] == [(line["level"], line["message"]) for line in lines]


def test_after_a_line_that_was_cut_off_the_next_one_is_whole() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    code = f"log.info('x' * {2 * size}); print(flush=True); input(); log.info('next'); log.info('last')"
    with subprocess.Popen(
        [sys.executable, "-c", _PRELUDE.format("json") + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writer,
    ) as process:
        os.close(writer)
        assert process.stdin
        assert process.stdout
        process.stdout.readline()  # the line was written as far as there was room for it
        data = os.read(reader, size)
        process.stdin.write(b"\n")
        process.stdin.close()
        with os.fdopen(reader, "rb") as rest:
            data += rest.read()

    cut, *whole = data.splitlines()
    assert b"x" * 100 in cut
    assert ["next", "last"] == [json.loads(line)["event"] for line in whole]
