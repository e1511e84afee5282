"""What hardware the node has, as frozen facts.

A backend (NVML, or a simulated node from a profile) answers `scan()` with an `Inventory`. Nothing here knows
Kubernetes: `devices/` turns the facts into what is published, `cdi/` into what a container gets.
"""
