"""Servers in a process that has no file descriptor left: they say so, and wait.

`socketserver` passes over an accept that failed, and the connection stays at the door. So it would be tried again at
once, without a word and with all of a core, for as long as the descriptors are used up.
"""

import errno
import socketserver
import time
from typing import Any

import structlog

log = structlog.get_logger(__name__)

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_SECONDS = 1.0


class PatientServer(socketserver.TCPServer):
    """To be named before the class whose connections shall be accepted so."""

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                log.error("connections cannot be accepted", err=error.strerror)  # noqa: TRY400 - the text says it
                time.sleep(_PAUSE_SECONDS)
            raise
