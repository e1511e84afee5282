"""How long the kubelet waits, in seconds: the real one's values, but for the Pod retries, which are quicker."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one kubelet; tests shorten some."""

    scan: float = 0.2  # how often the registry directory is looked at
    get_info: float = 1.0
    notify: float = 5.0
    registration_retry: float = 0.5  # doubling
    registration_retry_cap: float = 122.0
    call: float = 45.0  # deadline of NodePrepareResources and NodeUnprepareResources
    wipe: float = 30.0  # from a driver's last connection to the deletion of its ResourceSlices
    pod_retry: float = 0.5  # doubling
    pod_retry_cap: float = 10.0
    reconcile: float = 60.0  # how often claims of Pods that are gone are looked for
