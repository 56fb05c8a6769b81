"""A configuration as a flat list of values by dotted key."""

from __future__ import annotations

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.config.settings import all_settings


def values_of(config: Config) -> dict[str, Json]:
    """Every setting's value, in the order of the schema, as plain JSON.

    Each option of an environment has a key of its own; without options there is one `{}`.
    """
    whole: Json = config.model_dump(mode="json")
    values: dict[str, Json] = {}
    for key, setting in all_settings().items():
        value = whole
        for name in key.split("."):
            assert isinstance(value, dict)
            value = value[name]
        if setting.is_mapping and isinstance(value, dict) and value:
            values |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            values[key] = value
    return values
