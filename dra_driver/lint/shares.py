"""Shares of a device that nothing on the node holds their containers to."""

from collections.abc import Iterator

from dra_driver.config.opaque import decode
from dra_driver.config.settings import Mps
from dra_driver.devices.names import DRIVER_NAME
from dra_driver.errors import ConfigError
from dra_driver.lint.claims import Claim, Config, Wish
from dra_driver.lint.context import Context
from dra_driver.lint.finding import Finding, Rule

SHARE_NOT_ENFORCED = Rule(
    "share-not-enforced",
    "info",
    "Memory that is asked for, and that nobody enforces",
    "The scheduler counts the memory that claims with shares of a device ask for, and gives no more away than there is. "
    "What containers then take is another matter: only an MPS server, or a MIG device, holds them to it. Docs: sharing.md.",
)
RULES = (SHARE_NOT_ENFORCED,)


def check(context: Context) -> Iterator[Finding]:
    for claim in context.claims:
        for wish in claim.wishes:
            memory = [name for name in wish.capacities if name.text in {"memory", f"{DRIVER_NAME}/memory"}]
            members = context.candidates(wish.device_class) or ()
            shared = [device for device in members if device.driver == DRIVER_NAME and device.is_shared]
            if memory and shared and not _has_mps(context, claim, wish):
                yield context.finding(
                    SHARE_NOT_ENFORCED,
                    claim.manifest,
                    memory[0].path,
                    "nothing on the node holds containers to this much memory: the devices are shared, and no "
                    "configuration asks for MPS",
                    fix="give class or claim a configuration with sharing: {strategy: MPS}, or ask for a MIG device",
                )


def _has_mps(context: Context, claim: Claim, wish: Wish) -> bool:
    """Whether MPS is in force for the request; what is wrong with a configuration is another rule's."""
    device_class = context.classes.get(wish.device_class)
    configs = [*(device_class.configs if device_class else ())]
    configs += [c for c in claim.configs if not c.requests or {wish.name, wish.request} & set(c.requests)]
    return any(map(_asks_for_mps, configs[-1:]))


def _asks_for_mps(config: Config) -> bool:
    try:
        settings = decode(config.parameters, config.parameters_path)
    except ConfigError:
        return True
    return isinstance(settings.sharing, Mps)
