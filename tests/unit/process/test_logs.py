import json
import subprocess
import sys

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
