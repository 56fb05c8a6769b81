"""The configuration room: everything a run can be told, checked before it starts.

`schema/` says what there is, one file per section. `loading` makes one frozen `Config` from a
preset or a YAML file and flags, and remembers where each value came from; `showing` writes it
down again. Defaults live in the schema, files hold differences, and nothing unknown is accepted.
"""

from __future__ import annotations

from recollect.config.json_schema import json_schema
from recollect.config.loading import LoadedConfig, load_config
from recollect.config.presets import list_presets
from recollect.config.schema.config import Config
from recollect.config.showing import Change, as_yaml, diff, resolved_lines
from recollect.config.tree import Source

__all__ = [
    "Change",
    "Config",
    "LoadedConfig",
    "Source",
    "as_yaml",
    "diff",
    "json_schema",
    "list_presets",
    "load_config",
    "resolved_lines",
]
