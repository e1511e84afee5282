"""The fields of the node configuration, as pydantic checks them and as `api/` describes them; see `config.node`."""

import re
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from dra_driver.config.node import GpuEntry, MigMode, Shares
from dra_driver.errors import UsageError
from dra_driver.inventory.document import Value
from dra_driver.inventory.model import PCI_ADDRESS, pci_address

MAX_SHARES = 1024
_NUMBER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
UUID = r"^GPU-[0-9A-Za-z-]{1,59}$"
_WORDS = ("none", "unlimited", "memory")


def _shares(value: object) -> Shares:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SHARES:
        return value
    if value in _WORDS:
        return cast("Shares", value)
    raise PydanticCustomError("shares", f"{', '.join(_WORDS)}, or a whole number from 1 to {MAX_SHARES}")


def _pci_address(value: object) -> str:
    address = pci_address(value)
    if address is None:
        raise PydanticCustomError("pci_address", "a PCI address such as 0000:65:00.0")
    return address


_Shares = Annotated[
    Shares,
    PlainValidator(
        _shares,
        json_schema_input_type=Literal["none", "unlimited", "memory"]
        | Annotated[int, Field(ge=1, le=MAX_SHARES)],
    ),
]
_PciAddress = Annotated[
    str,
    PlainValidator(
        _pci_address, json_schema_input_type=Annotated[str, Field(pattern=f"^{PCI_ADDRESS.pattern}$")]
    ),
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class NodeGpus(_Model):
    """Settings for the GPUs that have all that is named of UUID, PCI address and model; for all where none is."""

    uuid: Annotated[str, Field(pattern=UUID)] | None = Field(None, description="UUID of a GPU.")
    pci_address: _PciAddress | None = Field(None, description="PCI address of a GPU.")
    model: Annotated[str, Field(min_length=1, max_length=96)] | None = Field(
        None, description="Product name as nvidia-smi shows it, in any case; * stands for any text."
    )
    mig: Literal["auto", "static", "dynamic", "off"] | None = Field(
        None,
        description="What is offered: auto - the GPU as it is found; static - the MIG devices that exist; dynamic - the"
        " GPU and every MIG device that it can be cut into, made on demand; off - the GPU. Default: --mig.",
    )
    shares: _Shares | None = Field(
        None,
        description="Who may have a GPU or MIG device at the same time: none - one claim; unlimited - any number; memory"
        " - as long as there is memory; a number - that many. Default: none.",
    )
    destroy_unowned_instances: bool | None = Field(
        None, description="With mig: dynamic, destroy MIG devices that no claim owns. Default: false."
    )

    def entry(self) -> GpuEntry:
        return GpuEntry(
            uuid=None if self.uuid is None else f"GPU-{self.uuid[4:].lower()}",
            pci_address=self.pci_address,
            model=None if self.model is None else self.model.lower(),
            mig=None if self.mig is None else MigMode(self.mig),
            shares=self.shares,
            destroy_unowned=self.destroy_unowned_instances,
        )


class NodeConfig(_Model):
    """Configuration of `dra-driver kubelet-plugin`: how the GPUs of a node are offered."""

    api_version: Literal["config.dra-driver.io/v1alpha1"]
    kind: Literal["NodeConfig"]
    gpus: tuple[NodeGpus, ...] = Field(
        default=(),
        description="Each setting of a GPU comes from the first entry that is for it and has the setting.",
        strict=False,
    )


def read(document: Value) -> tuple[GpuEntry, ...]:
    """The entries in a file; UsageError says all that is wrong with it."""
    try:
        config = NodeConfig.model_validate(_plain(document))
    except ValidationError as error:
        problems = [_in_words(document, details) for details in error.errors(include_url=False)]
        raise UsageError(f"{document.source} is no valid NodeConfig: {'; '.join(problems)}") from error
    return tuple(gpus.entry() for gpus in config.gpus)


def _plain(value: Value) -> Any:
    """A value of the file as data. Words are texts, `off` too, which YAML 1.1 takes for false."""
    match value.content:
        case dict() as entries:
            return {key: _plain(entry) for key, entry in entries.items()}
        case list() as items:
            return [_plain(item) for item in items]
        case text if value.plain and _NUMBER.fullmatch(text):
            return int(text)
        case "true" | "false" as text if value.plain:
            return text == "true"
    return None if value.is_null else value.content


def _in_words(document: Value, details: ErrorDetails) -> str:
    place = list(details["loc"])
    if details["type"] in {"extra_forbidden", "missing"}:
        problem = "unknown key" if details["type"] == "extra_forbidden" else "it is required"
    else:
        problem = f"expected {_expected(details)}, found {_found(details['input'])}"
    value = document
    for step in place:
        match value.content:
            case dict() as entries if step in entries:
                value = entries[str(step)]
            case list() as items:
                value = items[int(step)]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
    return f"line {value.line}: {path + ': ' if path else ''}{problem}"


def _expected(details: ErrorDetails) -> str:
    match details["type"]:
        case "literal_error":
            return str(details["ctx"]["expected"]).replace("'", "")
        case "shares" | "pci_address":
            return details["msg"]
        case "bool_type":
            return "true or false"
        case "tuple_type" | "list_type":
            return "a list"
        case "string_pattern_mismatch":
            return "the UUID of a GPU, such as GPU-3f583ca0-..."
        case "string_type" | "string_too_short" | "string_too_long":
            return "a text of 1 to 96 characters"
    return "a mapping"


def _found(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else repr(value)[:64]
