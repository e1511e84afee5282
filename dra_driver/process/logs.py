"""Structured logs on standard error: one line an event, as text for people or JSON for collectors.

Every line of a kubelet call carries `op_id`, `claim` and `claim_uid`, bound by `dra_driver.kubelet.dra`, so
that one grep shows a whole flow. Levels: error means that an operator must act, warning that something failed
and is tried again, info that something changed, debug the rest.

A collector of JSON trips over a single line that is none, so what libraries log, warnings, and the traces of
threads that died come this way too.
"""

import logging
import os
import sys
import threading
from types import TracebackType
from typing import Any

import structlog

_FIRST = ("timestamp", "level", "event", "op", "op_id", "claim", "claim_uid")


def configure(format_: str, level: str, **always: str) -> None:
    """Set up logging for the process; `always` is added to every line."""
    renderer: Any = structlog.processors.JSONRenderer()
    if format_ == "text":
        renderer = structlog.processors.LogfmtRenderer(
            key_order=list(_FIRST), drop_missing=True, bool_as_flag=False
        )

    def add_constants(
        _logger: object, _name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {**always, **event}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            add_constants,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Lines(sys.stderr.fileno()),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_FromLibraries()], force=True)
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)


class _Lines:
    """Writes each line with one system call.

    Lines of up to a page do not mix in a pipe, so no lock is needed; structlog's own loggers have one, and threads
    that wait for it while another has the interpreter made eight Prepares at once a third slower.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def msg(self, line: str) -> None:
        rest = f"{line}\n".encode(errors="backslashreplace")
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return  # a full disk or a closed pipe: a claim must not fail for it, and there is nobody to tell

    log = debug = info = warning = error = critical = fatal = exception = msg


class _FromLibraries(logging.Handler):
    """Records of the standard library's `logging`, which grpc and urllib3 use."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(
            record.levelno,
            "message of a library",
            logger=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info,
        )


def _uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    structlog.get_logger(__name__).critical(
        "thread ended by a fault of this driver",
        thread=threading.current_thread().name,
        exc_info=(kind, error, trace),
    )
