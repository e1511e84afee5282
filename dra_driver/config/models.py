"""The fields of the configuration API, as pydantic checks them and as `api/` describes them.

The fields are those of the official driver (api/nvidia.com/resource/v1beta1), and mean the same. They are strict: no
coercion, no unknown field; null is a field that is left out, as everywhere in Kubernetes. What pydantic finds
is put into our words, all of it at once, with the JSON path of each mistake.

Importing this costs 20 MiB and a tenth of a second, so that only `opaque` does it, when there is something to check.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from dra_driver.config import settings
from dra_driver.config.shown import shown
from dra_driver.quantity import Quantity

_MIB, _MOST = 1 << 20, 1 << 63
Place = tuple[int | str, ...]  # of a value in the parameters


def _limit(value: object) -> Quantity:
    """A limit of device memory."""
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            limit = Quantity.parse(str(value))
            if _MIB <= limit.value < _MOST:
                return limit
    except ValueError:
        pass
    raise PydanticCustomError("limit", "a quantity from 1Mi to 8Ei, as MPS counts in MiB")


Limit = Annotated[
    Quantity,
    PlainValidator(_limit, json_schema_input_type=Annotated[str | int, Field(examples=["10Gi", 1073741824])]),
]
Device = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]?|(GPU|MIG)-[0-9A-Za-z/-]+)$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class TimeSlicingConfig(_Model):
    """How processes take turns on a GPU."""

    interval: Literal["Default", "Short", "Medium", "Long"] | None = Field(
        None, description="How long a process has the GPU. Default: Default."
    )


class MpsConfig(_Model):
    """The MPS daemon of the devices, which all clients of theirs share."""

    default_active_thread_percentage: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="Share of the multiprocessors that each client may use at most, in percent."
    )
    default_pinned_device_memory_limit: Limit | None = Field(
        None, description="Memory that each client may use at most of each device."
    )
    default_per_device_pinned_memory_limit: dict[Device, Limit] | None = Field(
        None,
        description="The same for single devices, by UUID, or by index in the order of the devices' UUIDs.",
    )
    multi_user: bool | None = Field(
        None, description="Serve clients of several users at the same time. Default: false."
    )

    def setting(self) -> settings.Mps:
        return settings.Mps(
            self.default_active_thread_percentage,
            self.default_pinned_device_memory_limit,
            self.default_per_device_pinned_memory_limit or {},
            bool(self.multi_user),
        )


class MigSharing(_Model):
    """How a MIG device is shared."""

    strategy: Literal["TimeSlicing", "MPS"] = Field(description="TimeSlicing sets nothing for a MIG device.")
    mps_config: MpsConfig | None = Field(None, description="Only with the strategy MPS.")

    def setting(self) -> settings.Sharing:
        if self.strategy == "MPS":
            return (self.mps_config or MpsConfig.model_validate({})).setting()
        return settings.TimeSlicing()


class GpuSharing(MigSharing):
    """How a GPU is shared."""

    strategy: Literal["TimeSlicing", "MPS"] = Field(description="Taking turns, or running at the same time.")
    time_slicing_config: TimeSlicingConfig | None = Field(
        None, description="Only with the strategy TimeSlicing."
    )

    def setting(self) -> settings.Sharing:
        interval = self.time_slicing_config and self.time_slicing_config.interval
        if self.strategy == "TimeSlicing" and interval:
            return settings.TimeSlicing(settings.Interval(interval))
        return super().setting()


class _Config(_Model):
    api_version: Literal["resource.nvidia.com/v1beta1"]


class GpuConfig(_Config):
    """Configuration of whole GPUs, in the opaque parameters of a claim or a DeviceClass."""

    kind: Literal["GpuConfig"]
    sharing: GpuSharing | None = Field(None, description="How the containers of a claim share the GPU.")


class MigDeviceConfig(_Config):
    """Configuration of MIG devices, in the opaque parameters of a claim or a DeviceClass."""

    kind: Literal["MigDeviceConfig"]
    sharing: MigSharing | None = Field(
        None, description="How the containers of a claim share the MIG device."
    )


def check(kind: str, parameters: Mapping[str, Any]) -> settings.Sharing | list[tuple[Place, str]] | None:
    """The sharing settings in `parameters` of a `kind`; or what is wrong, by place."""
    model: type[GpuConfig | MigDeviceConfig] = GpuConfig if kind == "GpuConfig" else MigDeviceConfig
    wrong = _of_other_strategy(parameters.get("sharing"))
    try:
        sharing = model.model_validate(dict(parameters)).sharing
    except ValidationError as error:
        return [_in_words(kind, details) for details in error.errors(include_url=False)] + wrong
    if wrong:
        return wrong
    return None if sharing is None else sharing.setting()


def _of_other_strategy(sharing: object) -> list[tuple[Place, str]]:
    """Settings that their strategy makes useless; told beside what else is wrong, so not by the models."""
    if not isinstance(sharing, Mapping):
        return []
    fields = {"mpsConfig": "TimeSlicing", "timeSlicingConfig": "MPS"}
    return [
        (("sharing", name), f"it cannot be used with the strategy {strategy}")
        for name, strategy in fields.items()
        if sharing.get("strategy") == strategy and sharing.get(name) is not None
    ]


def _in_words(kind: str, details: ErrorDetails) -> tuple[Place, str]:
    place, value = details["loc"], details["input"]
    match details["type"]:
        case "extra_forbidden":
            *parent, key = place
            return tuple(parent), f"{parent[-1] if parent else kind} has no field {shown(key)}"
        case "missing":
            return place, "it is required"
        case "string_pattern_mismatch":
            *parent, key, _ = place  # a key's place ends in a mark that it is one
            return tuple(parent), f"{shown(key)} is neither the UUID nor the index of a device"
        case "literal_error":
            expected = str(details["ctx"]["expected"]).replace("'", "")
        case "greater_than_equal" | "less_than_equal" | "int_type":
            expected = "a percentage from 0 to 100"
        case "bool_type":
            expected = "true or false"
        case "string_unicode":
            expected = "a text in Unicode"
        case "limit":
            expected = details["msg"]
        case _:
            expected = "an object"
    return place, f"expected {expected}, not {shown(value)}"
