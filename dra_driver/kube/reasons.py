"""The reasons of the Events that this project records; people filter by them, so they do not change."""

from enum import StrEnum


class Reason(StrEnum):
    """CamelCase, as Kubernetes' own, and unlike any of those."""

    SLICES_REFUSED = "ResourceSlicesRefused"  # the API server takes none as they are
    DEVICE_WITHHELD = "DeviceNotPublished"  # a device, or a value of one, is left out of the slices
    FIELDS_DROPPED = "ResourceSliceFieldsDropped"  # a feature gate of the API server is off
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    DEVICE_RECOVERED = "DeviceRecovered"
    DRIVER_CONFLICT = "DriverConflict"  # another driver or device plugin manages the same GPUs
    HARDWARE_UNAVAILABLE = "HardwareUnavailable"  # NVML or the kernel driver does not answer
    CLAIM_NOT_SATISFIABLE = "ClaimNotSatisfiable"  # of a claim, and of a Pod that waits for one
    CLAIM_NOT_RESERVED = "ClaimNotReserved"  # it holds devices, and no Pod uses them
    DRIVER_NOT_RUNNING = "DriverNotRunning"  # a pool is offered that no driver stands behind
