"""JSON Schemas of the configuration API, for editors and for checks in CI; generated into `api/`.

A schema says less than `opaque.decode`: that a limit is at least 1Mi, or that MPS settings need the strategy MPS, is
decided there alone.
"""

import json
from typing import Any

from pydantic import BaseModel

from dra_driver.config.models import GpuConfig, MigDeviceConfig


def render_opaque() -> dict[str, str]:
    """The schema of each kind of opaque parameters, by file name."""
    models: tuple[type[BaseModel], ...] = (GpuConfig, MigDeviceConfig)
    return {f"{model.__name__.lower()}.schema.json": render(model) for model in models}


def render(model: type[BaseModel]) -> str:
    """The schema of what a user writes for `model`, as the text of a file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    for definition in (schema, *schema.get("$defs", {}).values()):
        for field in definition.get("properties", {}).values():
            _strip(field)
            for kind in field.get("anyOf", ()):
                if "patternProperties" in kind:  # keys of another form are errors, as fields are
                    kind["additionalProperties"] = False
    return f"{json.dumps(schema, indent=2)}\n"


def _strip(field: dict[str, Any]) -> None:
    """Leave out what pydantic adds and nobody reads: a field's name as its title, and that null is nothing."""
    field.pop("title", None)
    if field.get("default", field) is None:
        del field["default"]
