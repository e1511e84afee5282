"""gRPC servers on unix sockets.

gRPC removes whatever is at the path before it binds, so two processes that bind one path both succeed and the
second steals it: callers hold a lock first (`dra_driver.files.Lock`). A left-over of a killed process is no
obstacle for the same reason. Sockets are made with a closed umask: who may connect is who may enter the
directory.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from dra_driver.errors import UnavailableError, UsageError

MAX_PATH = 107  # bytes: sun_path holds 108, with the NUL
# Above the 110 Pods that a kubelet runs by default, each of which may wait in a Prepare for an API server that
# does not answer: an Unprepare, which needs none, and a probe must not queue behind them. Threads are made when
# they are needed, and one is enough most of the time.
MAX_WORKERS = 256
_OPTIONS = (("grpc.so_reuseport", 0),)
_umask = threading.Lock()  # the umask belongs to the whole process


def check_path(path: Path) -> None:
    """Raise UsageError where the kernel could not bind `path`."""
    length = len(os.fsencode(path))
    if length > MAX_PATH:
        msg = f"socket path {path} has {length} bytes, the kernel allows {MAX_PATH}: use a shorter directory"
        raise UsageError(msg)


def serve(path: Path, add_services: Callable[[grpc.Server], None]) -> grpc.Server:
    """Start a server on `path`, with the services that `add_services` adds to it."""
    check_path(path)
    server = grpc.server(ThreadPoolExecutor(MAX_WORKERS, thread_name_prefix=path.name), options=_OPTIONS)
    add_services(server)
    with _umask:
        before = os.umask(0o077)
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            msg = f"cannot listen on {path}: {error}"
            raise UnavailableError(msg) from error
        finally:
            os.umask(before)
    server.start()
    return server


def connect(path: Path) -> grpc.Channel:
    """A channel to the server on `path`. Proxies from the environment never apply to a socket file."""
    return grpc.insecure_channel(f"unix:{path}", options=(("grpc.enable_http_proxy", 0),))
