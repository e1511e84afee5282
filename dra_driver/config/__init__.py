"""The opaque configuration that claims and DeviceClasses carry for this driver: `resource.nvidia.com/v1beta1`."""
