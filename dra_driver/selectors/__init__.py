"""Selectors of DeviceClasses and requests: CEL over one variable, `device`, as the scheduler evaluates them.

An unknown domain of `device.attributes` or `device.capacity` reads as an empty map, an unknown name in it is an
error at run time, and an expression must give a bool, or something that is only known at run time.
"""

from dra_driver.selectors.device import DEVICE, Device, device_value
from dra_driver.selectors.selector import Selector, compile_selector, selector

__all__ = ["DEVICE", "Device", "Selector", "compile_selector", "device_value", "selector"]
