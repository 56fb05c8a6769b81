"""Configurations that come with the package, by name. Each begins with a line that says what for.

recollect train demo
recollect train mine.yaml          # a file whose first line is `preset: demo`
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from recollect.errors import ConfigMissing

_SUFFIX = ".yaml"


@lru_cache(maxsize=1)
def _texts() -> Mapping[str, str]:
    found = {
        entry.name[: -len(_SUFFIX)]: entry.read_text(encoding="utf-8")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(_SUFFIX)
    }
    return dict(sorted(found.items()))


def list_presets() -> dict[str, str]:
    """List the presets by name, each with the one line that says what it is for."""
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in _texts().items()}


def preset_text(name: str) -> str:
    """Give a preset's YAML. Raises ConfigMissing, with the nearest name, where there is none."""
    texts = _texts()
    if name not in texts:
        raise ConfigMissing(name, tuple(texts), nearest_preset(name))
    return texts[name]


def nearest_preset(name: str) -> str:
    """Name the preset that is spelt most like this, or nothing."""
    import difflib

    near = difflib.get_close_matches(name.lower().replace("-", "_"), _texts(), n=1)
    return near[0] if near else ""
