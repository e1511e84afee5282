"""Structured logs on standard error: one line an event, as text for people or JSON for collectors.

Every line of a kubelet call carries `op_id`, `claim` and `claim_uid`, bound by `dra_driver.kubelet.dra`, so
that one grep shows a whole flow. Levels: error means that an operator must act, warning that something failed
and is tried again, info that something changed, debug the rest.
"""

import logging
import sys
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
