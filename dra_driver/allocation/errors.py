"""Why an allocation is aborted rather than just found impossible."""

from dra_driver.errors import DriverError


class AllocationError(DriverError):
    """The attempt is aborted: the scheduler reports this text and does not look at other devices."""


class NodeError(AllocationError):
    """The claims do not fit on this node, for a reason that is told; they may on others."""
