"""Plugin registration: telling the kubelet who we are, and hearing what it made of it.

The kubelet asks again after each of its restarts, so both calls may come at any time and any number of times;
GetInfo has one second to answer and therefore only returns what was fixed at start. A refused registration is
no reason to stop: the kubelet tries again with a growing delay, and until then we are not ready.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from dra_driver.kubelet.pb import pluginregistration_v1_pb2 as pb
from dra_driver.kubelet.pb import pluginregistration_v1_pb2_grpc as pb_grpc

log = structlog.get_logger(__name__)

PLUGIN_TYPE = "DRAPlugin"
V1 = "v1.DRAPlugin"
V1BETA1 = "v1beta1.DRAPlugin"  # the only one that kubelets before 1.34 speak
VERSIONS = (V1, V1BETA1)  # the kubelet takes the first that it knows


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """What the kubelet said last: None before it said anything."""

    registered: bool | None = None
    error: str = ""


class Registration(pb_grpc.RegistrationServicer):
    """The registration service of one driver."""

    def __init__(self, driver_name: str, endpoint: Path) -> None:
        self._info = pb.PluginInfo(
            type=PLUGIN_TYPE, name=driver_name, endpoint=str(endpoint), supported_versions=VERSIONS
        )
        self._lock = threading.Lock()
        self._status = RegistrationStatus()

    @property
    def status(self) -> RegistrationStatus:
        with self._lock:
            return self._status

    def forget(self) -> None:
        """The announcement was removed, and the kubelet drops a plugin whose announcement is gone."""
        with self._lock:
            self._status = RegistrationStatus()

    def GetInfo(self, request: pb.InfoRequest, context: grpc.ServicerContext) -> pb.PluginInfo:
        return self._info

    def NotifyRegistrationStatus(
        self, request: pb.RegistrationStatus, context: grpc.ServicerContext
    ) -> pb.RegistrationStatusResponse:
        status = RegistrationStatus(request.plugin_registered, request.error)
        with self._lock:
            self._status = status
        if status.registered:
            log.info("registered with the kubelet", endpoint=self._info.endpoint)
        else:
            log.error("the kubelet refused the registration", err=status.error)
        return pb.RegistrationStatusResponse()
