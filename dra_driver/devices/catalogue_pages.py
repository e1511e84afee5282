"""The catalogue as people and programs read it: `api/attributes.yaml`, `docs/reference/attributes.md`."""

from typing import Any

import yaml

from dra_driver.devices.catalogue import (
    ATTRIBUTES,
    CAPACITIES,
    COUNTERS,
    TAINTS,
    Attribute,
    Capacity,
    Entry,
)
from dra_driver.devices.names import DRIVER_NAME

_MADE = "made from dra_driver/devices/catalogue.py by `make generate`; do not edit"
_INTRODUCTION = f"""\
What the devices of this driver say of themselves, and how a claim asks for it. Reading an attribute that a device lacks
is an error, and one such device keeps a Pod from being scheduled; so an attribute that is not on every device is read
behind `has()`, as the guarded selectors below do. Unknown values are left out, never guessed.

Names without a domain belong to the driver: in constraints `uuid` is `{DRIVER_NAME}/uuid`. If the driver runs under
another name, that name is the domain."""

_DEVICES = """\
Devices: `gpu` is a whole GPU, `mig` a MIG device that exists, `partition` one that is made for the claim that it is given
to; see [mig.md](../mig.md). For claims the last two are alike: `type` is `mig`."""
_COUNTERS = """\
A GPU that is cut on demand has a counter set, `gpu-0000-65-00-0-counters` for `gpu-0000-65-00-0`. Whole, it consumes all of
it; a MIG device that is made consumes its part; a MIG device that exists already is taken out of the totals."""


def render_yaml() -> str:
    """`api/attributes.yaml`: keys without a value are left out."""
    document = {
        "driver": DRIVER_NAME,
        "attributes": [_attribute(entry) for entry in ATTRIBUTES],
        "capacities": [_capacity(entry) for entry in CAPACITIES],
        "counters": [
            {"name": counter.name, "meaning": counter.meaning, "since": counter.since} for counter in COUNTERS
        ],
        "taints": [
            {
                "key": taint.key,
                "effect": taint.effect,
                "values": list(taint.values),
                "meaning": taint.meaning,
                "since": taint.since,
            }
            for taint in TAINTS
        ],
    }
    return f"# {_MADE}\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def render_markdown() -> str:
    """`docs/reference/attributes.md`."""
    return "\n".join(
        [
            f"<!-- {_MADE} -->",
            "# Attributes and capacities",
            "",
            _INTRODUCTION,
            "",
            _DEVICES,
            "",
            "## Attributes",
            "",
            "| name | type | devices | meaning | example | since |",
            "|---|---|---|---|---|---|",
            *(
                f"| `{e.name}` | {e.type} | {_devices(e)} | {_meaning(e)} | `{_text(e.example)}` | {e.since} |"
                for e in ATTRIBUTES
            ),
            "",
            "## Capacities",
            "",
            "| name | unit | devices | meaning | example | since |",
            "|---|---|---|---|---|---|",
            *(
                f"| `{e.name}` | {e.unit} | {_devices(e)} | {_meaning(e)} | `{e.example}` | {e.since} |"
                for e in CAPACITIES
            ),
            "",
            "## Guarded selectors",
            "",
            "```cel",
            *(entry.guard for entry in ATTRIBUTES),
            *(entry.guard for entry in CAPACITIES),
            "```",
            "",
            "## Taints",
            "",
            "| key | effect | values | meaning | since |",
            "|---|---|---|---|---|",
            *(f"| `{t.key}` | {t.effect} | {_list(t.values)} | {t.meaning} | {t.since} |" for t in TAINTS),
            "",
            "## Counters",
            "",
            _COUNTERS,
            "",
            "| counter | meaning | since |",
            "|---|---|---|",
            *(f"| `{c.name}` | {c.meaning} | {c.since} |" for c in COUNTERS),
            "",
        ]
    )


def _attribute(entry: Attribute) -> dict[str, Any]:
    return _entry(entry, {"type": entry.type}, entry.values, entry.guard)


def _capacity(entry: Capacity) -> dict[str, Any]:
    return _entry(entry, {"type": "quantity", "unit": entry.unit}, (), entry.guard)


def _entry(entry: Entry, kind: dict[str, str], values: tuple[str, ...], guard: str) -> dict[str, Any]:
    return {
        "name": entry.name,
        **kind,
        **({"values": list(values)} if values else {}),
        "devices": list(entry.devices),
        "presence": "always" if entry.when is None else f"when {entry.when}",
        "meaning": entry.meaning,
        "example": entry.example,
        "guard": guard,
        "since": entry.since,
    }


def _devices(entry: Entry) -> str:
    return ", ".join(entry.devices)


def _meaning(entry: Entry) -> str:
    return entry.meaning if entry.when is None else f"{entry.meaning} Present when {entry.when}."


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(values: tuple[str, ...]) -> str:
    return ", ".join(f"`{value}`" for value in values)
