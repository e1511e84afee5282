"""Is somebody else handing out the same GPUs?

Two components that allocate one GPU each think that it is theirs, and two Pods get it. Kubernetes prevents
none of that, so we look before we publish:

* a plugin that is registered under our driver name, or that left claims behind in our directory (the official
  driver, `checkpoint.json`): two drivers of one name cannot live on one node, so we stop;
* a device plugin that advertises GPUs in the Node's status: we publish nothing while it does, and say so. The
  extended resource of a DeviceClass never shows up there, so that is no false alarm.
"""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from dra_driver.devices.plugins import device_plugin_resources
from dra_driver.errors import ApiError, UnavailableError, UsageError, one_line
from dra_driver.kube.backoff import Backoff
from dra_driver.kubelet.probe import registered_driver

log = structlog.get_logger(__name__)

CHECK_SECONDS = 60.0


def refuse_other_driver(driver_name: str, registry_dir: Path, plugin_dir: Path) -> None:
    """Raise UsageError where another plugin of this name lives, or left prepared claims, on this node.

    Called while we hold the lock and before we bind anything: whoever answers is not us.
    """
    # As the kubelet looks: at any name, and below directories.
    for socket in sorted(path for path in registry_dir.rglob("*") if path.is_socket()):
        found = registered_driver(socket)
        if found is not None and found[0] == driver_name:
            msg = (
                f"another plugin is registered as {driver_name} on this node (socket {socket}, serving {found[1]}):"
                " remove that driver from the node, or give this one another --driver-name"
            )
            raise UsageError(msg)
    checkpoint = plugin_dir / "checkpoint.json"
    claims = _official_claims(checkpoint)
    if claims:
        msg = (
            f"{checkpoint} of the official driver holds {claims} prepared claims: drain the node and let that driver"
            " unprepare them, or remove the file if no Pod uses them any more"
        )
        raise UsageError(msg)


def _official_claims(checkpoint: Path) -> int:
    """How many prepared claims the official driver's checkpoint holds; UsageError where it does not say."""
    try:
        content = json.loads(checkpoint.read_bytes())
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        raise _unread(checkpoint, one_line(error)) from error
    for version in ("v2", "v1"):
        part = content.get(version) if isinstance(content, dict) else None
        if isinstance(part, dict):
            return len(part.get("preparedClaims") or ())
    raise _unread(checkpoint, "it is of a version that is not known here")


def _unread(checkpoint: Path, why: str) -> UsageError:
    return UsageError(
        f"{checkpoint} of the official driver may hold prepared claims, and cannot be read ({why}): drain the node and "
        "let that driver unprepare them, or remove the file if no Pod uses them any more"
    )


class DevicePluginWatch:
    """Looks at the Node now and then; `on_change` is called when what it found changes.

    `answer` is None until the API server answered for the first time, then the resources that a device plugin
    advertises: none means that the GPUs are ours to publish.
    """

    def __init__(
        self,
        get_node: Callable[[], Mapping[str, Any]],
        on_change: Callable[[], None],
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._get_node = get_node
        self._on_change = on_change
        self._check_seconds = check_seconds
        self.answer: dict[str, str] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coexistence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def check(self) -> bool:
        """Look once; False where the API server gave no answer."""
        try:
            found = device_plugin_resources(self._get_node())
        except (ApiError, UnavailableError) as error:
            log.warning(
                "cannot see whether a device plugin hands out the GPUs of this node", err=one_line(error)
            )
            return False
        except Exception:  # an answer that is no Node; the thread must outlive it
            log.exception("looking for a device plugin failed for a reason that is a fault of this driver")
            return False
        if found != self.answer:
            before, self.answer = self.answer, found
            if found:
                log.error(
                    "a device plugin hands out the GPUs of this node, so none is published: remove it from the node",
                    resources=found,
                )
            elif before:
                log.info("the device plugin is gone; publishing")
            self._on_change()
        return True

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stop.is_set():
            if self.check():
                backoff.reset()
                self._stop.wait(self._check_seconds)
            else:
                self._stop.wait(backoff.delay())
