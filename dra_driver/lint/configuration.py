"""Opaque configuration, decoded as strictly as when a claim is prepared: then the Pod waits on its node already."""

from collections.abc import Iterator

from dra_driver.config.opaque import API_VERSION, InvalidParametersError, decode
from dra_driver.config.settings import Config as Settings
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.errors import ConfigError, one_line
from dra_driver.lint.claims import Claim, Config
from dra_driver.lint.context import Context
from dra_driver.lint.finding import Finding, Rule
from dra_driver.lint.manifests import Manifest, as_map, as_text
from dra_driver.lint.near import near

OPAQUE_CONFIG = Rule(
    "opaque-config",
    "error",
    "A configuration that the driver refuses",
    "The API server does not look into a driver's parameters. A wrong kind or field shows only when the claim is prepared "
    "on the node, as an event of a Pod that does not start.",
)
CONFIG_DRIVER = Rule(
    "config-driver",
    "warning",
    "A configuration of ours for another driver",
    "Each driver reads only the entries with its own name, so this one is read by nobody.",
)
CONFIG_DEVICE_TYPE = Rule(
    "config-device-type",
    "error",
    "A configuration for the other type of device",
    "A `GpuConfig` is for whole GPUs, a `MigDeviceConfig` for MIG devices. An entry that names a request of the other type "
    "refuses the claim on the node.",
)
RULES = (OPAQUE_CONFIG, CONFIG_DRIVER, CONFIG_DEVICE_TYPE)


def check(context: Context) -> Iterator[Finding]:
    for found in context.given_classes.values():
        for config in found.configs if found.manifest is not None else ():
            yield from _check(context, found.manifest, config, None)
    for claim in context.claims:
        for config in claim.configs:
            yield from _check(context, claim.manifest, config, claim)


def _check(
    context: Context, manifest: Manifest | None, config: Config, claim: Claim | None
) -> Iterator[Finding]:
    if manifest is None or config.parameters is None:
        return
    if config.driver != DRIVER_NAME:
        yield from _check_driver(context, manifest, config)
        return
    try:
        settings = decode(config.parameters, config.parameters_path)
    except InvalidParametersError as error:
        for problem in error.problems:
            path = config.parameters_path + problem.path
            yield context.finding(OPAQUE_CONFIG, manifest, path, problem.message)
        return
    except ConfigError as error:
        yield context.finding(OPAQUE_CONFIG, manifest, config.parameters_path, one_line(error))
        return
    if claim is not None and config.requests:
        yield from _check_type(context, claim, config, settings)


def _check_driver(context: Context, manifest: Manifest, config: Config) -> Iterator[Finding]:
    ours = as_text(as_map(config.parameters).get("apiVersion")) == API_VERSION
    if ours or near(config.driver, [DRIVER_NAME], 0.8):
        message = f"the entry is for the driver {config.driver}, and its parameters are {DRIVER_NAME}'s"
        if not ours:
            message = f"there is no known driver {config.driver}"
        path = f"{config.path}.opaque.driver"
        yield context.finding(CONFIG_DRIVER, manifest, path, message, fix=f"write {DRIVER_NAME}")


def _check_type(context: Context, claim: Claim, config: Config, settings: Settings) -> Iterator[Finding]:
    for name, wishes in claim.named(config.requests).items():
        members = [d for wish in wishes for d in context.candidates(wish.device_class) or ()]
        types = {device.type for device in members}
        if types and settings.device_type not in types:
            listed = " or ".join(sorted(map(str, types)))
            message = f"a {settings} cannot be applied to request {name}, whose devices are of type {listed}"
            yield context.finding(CONFIG_DEVICE_TYPE, claim.manifest, f"{config.path}.requests", message)
