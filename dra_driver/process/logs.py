"""Structured logs on standard error: one line an event, as text for people or JSON for collectors.

Every line of a kubelet call carries `op_id`, `claim` and `claim_uid`, which `dra_driver.kubelet.dra` gives to `Fields`,
so that one grep shows a whole flow. Levels: error means that an operator must act, warning that something failed
and is tried again, info that something changed, debug the rest.

A collector of JSON trips over a single line that is none, so what libraries log, warnings, and the traces of
threads that died come this way too.
"""

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType, TracebackType
from typing import Any

import structlog

_FIRST = ("timestamp", "level", "event", "op", "op_id", "claim", "claim_uid")
_PLAIN = re.compile(r'[^\s"=\\]*')
_quoted = json.JSONEncoder(ensure_ascii=False).encode
_escaped = json.JSONEncoder().encode
_LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
_fields: ContextVar[Mapping[str, str]] = ContextVar("fields", default=MappingProxyType({}))


class Fields:
    """`with Fields(claim=...)`: these fields are on every line that is logged in it by this thread."""

    __slots__ = ("_before", "_fields")

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    @staticmethod
    def now() -> Mapping[str, str]:
        """Those that a line would get here."""
        return _fields.get()

    def __enter__(self) -> None:
        self._before: Token[Mapping[str, str]] = _fields.set({**_fields.get(), **self._fields})

    def __exit__(self, *_: object) -> None:
        _fields.reset(self._before)


def configure(format_: str, level: str, **always: str) -> None:
    """Set up logging for the process; `always` is added to every line."""
    render = _as_text if format_ == "text" else _as_json

    def add_fields(
        _logger: object, _name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {**always, **Fields.now(), **event}

    def line(_logger: object, _name: str, event: structlog.typing.EventDict) -> str:
        try:
            return render(event)
        except Exception:  # noqa: BLE001 - a value without a text, or none that JSON has: no claim must fail for it
            return render({name: _readable(value) for name, value in event.items()})

    structlog.configure(
        processors=[
            add_fields,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Lines(sys.stderr.fileno()),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_FromLibraries()], force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


def _as_json(event: Mapping[str, Any]) -> str:
    return json.dumps(event, default=str, allow_nan=False)


def _as_text(event: Mapping[str, Any]) -> str:
    """The event as logfmt. structlog's own renderer takes five times as long, and a Prepare writes a line."""
    names = [name for name in _FIRST if name in event]
    names += [name for name in event if name not in _FIRST]
    return " ".join([f"{name}={_text(event[name])}" for name in names])


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if not text.isprintable():  # it would move a terminal's cursor, or end the line for some readers
        return _escaped(text)
    return text if _PLAIN.fullmatch(text) else _quoted(text)


def _readable(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever a __str__ raises
        return f"({type(value).__name__} without a text)"


class _Lines:
    """Writes each line with one system call.

    Lines of up to a page do not mix in a pipe, so no lock is needed; structlog's own loggers have one, and threads
    that wait for it while another has the interpreter made eight Prepares at once a third slower.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_cut = False  # the last line has no end

    def msg(self, line: str) -> None:
        data = f"{line}\n".encode(errors="backslashreplace")
        if self._is_cut:
            data = b"\n" + data
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:  # a full disk, pipe or none: no claim must fail for it, and there is nobody to tell
            self._is_cut = self._is_cut or len(rest) < len(data)
        else:
            self._is_cut = False

    log = debug = info = warning = error = critical = fatal = exception = msg


class _FromLibraries(logging.Handler):
    """Records of the standard library's `logging`, which grpc and urllib3 use."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - its arguments don't fit; the library must not hear of it
            message = f"{_readable(record.msg)} {_readable(record.args)}"
        structlog.get_logger(record.name).log(
            next((level for level in _LEVELS if level <= record.levelno), logging.DEBUG),
            "message of a library",
            logger=record.name,
            message=message,
            exc_info=record.exc_info,
        )


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    structlog.get_logger(__name__).critical(
        "thread ended by a fault of this driver",
        thread=threading.current_thread().name,
        exc_info=(kind, error, trace),
    )
