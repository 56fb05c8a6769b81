"""The schema for editors, which complete and check YAML files with it."""

from __future__ import annotations

from recollect.canonical import Json
from recollect.config.presets import list_presets
from recollect.config.schema.config import Config


def json_schema() -> dict[str, Json]:
    """Describe a configuration file as JSON Schema 2020-12, the key `preset` included."""
    schema: dict[str, Json] = Config.model_json_schema()
    name: dict[str, Json] = {"enum": list(list_presets())}
    preset: dict[str, Json] = {
        "description": "Presets to start from; this file then holds only differences.",
        "anyOf": [name, {"type": "array", "items": name}],
    }
    properties = schema["properties"]
    assert isinstance(properties, dict)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Recollect configuration",
        "properties": {"preset": preset, **properties},
    }
