"""The types of resource.k8s.io/v1, as tables for the decoder: every field of 1.37, alpha ones included.

v1beta2 has the same shapes. A server drops the fields of features that are off without a word, so knowing
them all refuses nothing that some server takes.
"""

from typing import Final

from dra_driver.resource.decoding import ListOf, MapOf, Scalar, Shape, Struct

_STRING, _BOOL, _INT64 = Scalar.STRING, Scalar.BOOL, Scalar.INT64
_QUANTITY, _TIME, _RAW = Scalar.QUANTITY, Scalar.TIME, Scalar.RAW
_STRINGS: Final = ListOf(_STRING)

_OWNER = Struct(
    "OwnerReference",
    {
        "apiVersion": _STRING,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
        "controller": _BOOL,
        "blockOwnerDeletion": _BOOL,
    },
)
_MANAGED_FIELDS = Struct(
    "ManagedFieldsEntry",
    {
        "manager": _STRING,
        "operation": _STRING,
        "apiVersion": _STRING,
        "time": _TIME,
        "fieldsType": _STRING,
        "fieldsV1": _RAW,
        "subresource": _STRING,
    },
)
_METADATA = Struct(
    "ObjectMeta",
    {
        "name": _STRING,
        "generateName": _STRING,
        "namespace": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
        "resourceVersion": _STRING,
        "generation": _INT64,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": _INT64,
        "labels": MapOf(_STRING),
        "annotations": MapOf(_STRING),
        "ownerReferences": ListOf(_OWNER),
        "finalizers": _STRINGS,
        "managedFields": ListOf(_MANAGED_FIELDS),
    },
)
_TYPE: Final[dict[str, Shape]] = {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}
_CONDITION = Struct(
    "Condition",
    {
        "type": _STRING,
        "status": _STRING,
        "observedGeneration": _INT64,
        "lastTransitionTime": _TIME,
        "reason": _STRING,
        "message": _STRING,
    },
)
_REQUIREMENT = Struct("NodeSelectorRequirement", {"key": _STRING, "operator": _STRING, "values": _STRINGS})
_TERM = Struct(
    "NodeSelectorTerm",
    {"matchExpressions": ListOf(_REQUIREMENT), "matchFields": ListOf(_REQUIREMENT)},
)
_NODE_SELECTOR = Struct("NodeSelector", {"nodeSelectorTerms": ListOf(_TERM)})
_TAINT = Struct("DeviceTaint", {"key": _STRING, "value": _STRING, "effect": _STRING, "timeAdded": _TIME})
_TOLERATION = Struct(
    "DeviceToleration",
    {
        "key": _STRING,
        "operator": _STRING,
        "value": _STRING,
        "effect": _STRING,
        "tolerationSeconds": _INT64,
    },
)

# Slices
_COUNTERS = MapOf(Struct("Counter", {"value": _QUANTITY}))
_COUNTER_SET = Struct("CounterSet", {"name": _STRING, "counters": _COUNTERS})
_CONSUMPTION = Struct(
    "DeviceCounterConsumption",
    {"counterSet": _STRING, "counters": _COUNTERS, "compatibilityGroups": _STRINGS},
)
_ATTRIBUTE = Struct(
    "DeviceAttribute",
    {
        "int": _INT64,
        "bool": _BOOL,
        "string": _STRING,
        "version": _STRING,
        "ints": ListOf(_INT64),
        "bools": ListOf(_BOOL),
        "strings": _STRINGS,
        "versions": _STRINGS,
    },
)
_RANGE = Struct("CapacityRequestPolicyRange", {"min": _QUANTITY, "max": _QUANTITY, "step": _QUANTITY})
_POLICY = Struct(
    "CapacityRequestPolicy",
    {"default": _QUANTITY, "validValues": ListOf(_QUANTITY), "validRange": _RANGE},
)
_CAPACITY = Struct("DeviceCapacity", {"value": _QUANTITY, "requestPolicy": _POLICY})
_MAPPING = Struct(
    "NodeAllocatableMapping",
    {"capacityKey": _STRING, "capacityMultiplier": _QUANTITY, "deviceMultiplier": _QUANTITY},
)
_OVERHEAD = Struct("NodeAllocatableOverhead", {"perPod": _QUANTITY, "perContainer": _QUANTITY})
_DEVICE = Struct(
    "Device",
    {
        "name": _STRING,
        "attributes": MapOf(_ATTRIBUTE),
        "capacity": MapOf(_CAPACITY),
        "consumesCounters": ListOf(_CONSUMPTION),
        "nodeName": _STRING,
        "nodeSelector": _NODE_SELECTOR,
        "allNodes": _BOOL,
        "taints": ListOf(_TAINT),
        "bindsToNode": _BOOL,
        "bindingConditions": _STRINGS,
        "bindingFailureConditions": _STRINGS,
        "allowMultipleAllocations": _BOOL,
        "nodeAllocatableResources": MapOf(
            Struct("NodeAllocatableResource", {"mapping": _MAPPING, "overhead": _OVERHEAD})
        ),
    },
)
_POOL = Struct("ResourcePool", {"name": _STRING, "generation": _INT64, "resourceSliceCount": _INT64})
_SLICE_SPEC = Struct(
    "ResourceSliceSpec",
    {
        "driver": _STRING,
        "pool": _POOL,
        "nodeName": _STRING,
        "nodeSelector": _NODE_SELECTOR,
        "allNodes": _BOOL,
        "perDeviceNodeSelection": _BOOL,
        "devices": ListOf(_DEVICE),
        "sharedCounters": ListOf(_COUNTER_SET),
        "partitionTypeAttribute": _STRING,
        "skipNodeOperations": _STRINGS,
    },
)

# Claims and classes
_OPAQUE = Struct("OpaqueDeviceConfiguration", {"driver": _STRING, "parameters": _RAW})
_SELECTOR = Struct("DeviceSelector", {"cel": Struct("CELDeviceSelector", {"expression": _STRING})})
_DERIVED = Struct("DeviceDerivedAttribute", {"name": _STRING, "expression": _STRING})
_SUBREQUEST: Final[dict[str, Shape]] = {
    "deviceClassName": _STRING,
    "selectors": ListOf(_SELECTOR),
    "allocationMode": _STRING,
    "count": _INT64,
    "tolerations": ListOf(_TOLERATION),
    "capacity": Struct("CapacityRequirements", {"requests": MapOf(_QUANTITY)}),
    "derivedAttributes": ListOf(_DERIVED),
}
_REQUEST = Struct(
    "DeviceRequest",
    {
        "name": _STRING,
        "exactly": Struct("ExactDeviceRequest", {**_SUBREQUEST, "adminAccess": _BOOL}),
        "firstAvailable": ListOf(Struct("DeviceSubRequest", {"name": _STRING, **_SUBREQUEST})),
    },
)
_CONSTRAINT = Struct(
    "DeviceConstraint",
    {"requests": _STRINGS, "matchAttribute": _STRING, "distinctAttribute": _STRING},
)
_CLAIM_CONFIG = Struct("DeviceClaimConfiguration", {"requests": _STRINGS, "opaque": _OPAQUE})
_CLAIM_SPEC = Struct(
    "ResourceClaimSpec",
    {
        "devices": Struct(
            "DeviceClaim",
            {
                "requests": ListOf(_REQUEST),
                "constraints": ListOf(_CONSTRAINT),
                "config": ListOf(_CLAIM_CONFIG),
            },
        )
    },
)
_RESULT = Struct(
    "DeviceRequestAllocationResult",
    {
        "request": _STRING,
        "driver": _STRING,
        "pool": _STRING,
        "device": _STRING,
        "adminAccess": _BOOL,
        "tolerations": ListOf(_TOLERATION),
        "bindingConditions": _STRINGS,
        "bindingFailureConditions": _STRINGS,
        "shareID": _STRING,
        "consumedCapacity": MapOf(_QUANTITY),
        "skipNodeOperations": _STRINGS,
    },
)
_ALLOCATION_CONFIG = Struct(
    "DeviceAllocationConfiguration", {"source": _STRING, "requests": _STRINGS, "opaque": _OPAQUE}
)
_ALLOCATION = Struct(
    "AllocationResult",
    {
        "devices": Struct(
            "DeviceAllocationResult",
            {"results": ListOf(_RESULT), "config": ListOf(_ALLOCATION_CONFIG)},
        ),
        "nodeSelector": _NODE_SELECTOR,
        "allocationTimestamp": _TIME,
    },
)
_CONSUMER = Struct(
    "ResourceClaimConsumerReference",
    {"apiGroup": _STRING, "resource": _STRING, "name": _STRING, "uid": _STRING},
)
_DEVICE_STATUS = Struct(
    "AllocatedDeviceStatus",
    {
        "driver": _STRING,
        "pool": _STRING,
        "device": _STRING,
        "shareID": _STRING,
        "conditions": ListOf(_CONDITION),
        "data": _RAW,
        "networkData": Struct(
            "NetworkDeviceData",
            {"interfaceName": _STRING, "ips": _STRINGS, "hardwareAddress": _STRING},
        ),
    },
)
_CLAIM_STATUS = Struct(
    "ResourceClaimStatus",
    {
        "allocation": _ALLOCATION,
        "reservedFor": ListOf(_CONSUMER),
        "devices": ListOf(_DEVICE_STATUS),
    },
)

EXACT_REQUEST_FIELDS = frozenset({*_SUBREQUEST, "adminAccess"})
"""What v1 has under `exactly`, and v1beta1 in the request itself."""

DEVICE_FIELDS = frozenset(_DEVICE.fields) - {"name"}
"""What v1 has in a device, and v1beta1 under `basic`."""

RESOURCE_SLICE = Struct("ResourceSlice", {**_TYPE, "spec": _SLICE_SPEC})
RESOURCE_CLAIM = Struct("ResourceClaim", {**_TYPE, "spec": _CLAIM_SPEC, "status": _CLAIM_STATUS})
RESOURCE_CLAIM_TEMPLATE = Struct(
    "ResourceClaimTemplate",
    {
        **_TYPE,
        "spec": Struct("ResourceClaimTemplateSpec", {"metadata": _METADATA, "spec": _CLAIM_SPEC}),
    },
)
DEVICE_CLASS = Struct(
    "DeviceClass",
    {
        **_TYPE,
        "spec": Struct(
            "DeviceClassSpec",
            {
                "selectors": ListOf(_SELECTOR),
                "config": ListOf(Struct("DeviceClassConfiguration", {"opaque": _OPAQUE})),
                "extendedResourceName": _STRING,
            },
        ),
    },
)
DEVICE_TAINT_RULE = Struct(
    "DeviceTaintRule",
    {
        **_TYPE,
        "spec": Struct(
            "DeviceTaintRuleSpec",
            {
                "deviceSelector": Struct(
                    "DeviceTaintSelector", {"driver": _STRING, "pool": _STRING, "device": _STRING}
                ),
                "taint": _TAINT,
            },
        ),
        "status": Struct("DeviceTaintRuleStatus", {"conditions": ListOf(_CONDITION)}),
    },
)
