"""Limits of resource.k8s.io objects (k8s.io/api/resource/v1 types.go, and its validation)."""

MAX_DEVICES = 128  # per slice
MAX_DEVICES_WITH_EXTRAS = (
    64  # if any device in the slice has taints, consumes counters, or has list attributes
)
MAX_COUNTER_SETS = 8  # per slice
MAX_COUNTERS = 32  # per set
MAX_CONSUMED_COUNTER_SETS = 2  # per device
MAX_ATTRIBUTES_AND_CAPACITIES = 32  # per device, together
MAX_TAINTS = 16  # per device
MAX_ATTRIBUTE_LENGTH = 64  # bytes of a string or version attribute
MAX_ATTRIBUTE_VALUES = 48  # per device, each item of a list counted
MAX_VALID_VALUES = 10  # of a request policy
MAX_BINDING_CONDITIONS = 4  # and as many failure conditions
MAX_DRIVER_NAME = 63
MAX_POOL_NAME = 253
MAX_LABEL = 63  # a DNS label: device, request, counter and counter set names
MAX_IDENTIFIER = 32  # the part of an attribute name behind the slash
MAX_REQUESTS = 32  # per claim
MAX_SUBREQUESTS = 8  # per firstAvailable
MAX_RESULTS = 32  # allocated devices per claim
MAX_SELECTORS = 32
MAX_CONSTRAINTS = 32
MAX_DERIVED_ATTRIBUTES = 32  # per request
MAX_CONFIGS = 32
MAX_OPAQUE_BYTES = 10 * 1024
MAX_EXPRESSION_BYTES = 10 * 1024
MAX_ALLOCATION_CONFIGS = 2 * MAX_CONFIGS  # from classes and from the claim
MAX_RESERVED_FOR = 256
MAX_CONDITIONS = 8  # of an allocated device's status, and of a taint rule's
MAX_IPS = 16  # of an allocated network device
MAX_INTERFACE_NAME = 256
MAX_HARDWARE_ADDRESS = 128
