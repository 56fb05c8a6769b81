"""Adapter folders: what stands in the file that says what an adapter is and belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recollect.canonical import Json, strict_json
from recollect.errors import ModelMissing

_FILE = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A saved adapter. `base` is the model it was put onto, `revision` its commit if written down.

    Numbers are None where the file does not have them, and `targets`, the names of the adapted
    modules, where it has a pattern in their place.
    """

    base: str
    revision: str | None
    rank: float | None
    alpha: float | None
    dropout: float | None
    targets: tuple[str, ...] | None = None


def has_adapter(name: str) -> bool:
    """Tell whether a model's name is a folder with a trained adapter."""
    return (Path(name) / _FILE).is_file()


def read_adapter(folder: str) -> Adapter:
    """Read what an adapter is; ModelMissing where its file is none."""
    try:
        content = strict_json((Path(folder) / _FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise ModelMissing(folder, f"{_FILE}: {error}") from error
    content = content if isinstance(content, dict) else {}
    base, revision = content.get("base_model_name_or_path"), content.get("revision")
    if not isinstance(base, str) or not base:
        raise ModelMissing(folder, f"its {_FILE} names no base model")
    return Adapter(
        base,
        revision if isinstance(revision, str) and revision else None,
        _number(content, "r"),
        _number(content, "lora_alpha"),
        _number(content, "lora_dropout"),
        _words(content, "target_modules"),
    )


def _number(content: Mapping[str, Json], name: str) -> float | None:
    value = content.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _words(content: Mapping[str, Json], name: str) -> tuple[str, ...] | None:
    value = content.get(name)
    return tuple(map(str, value)) if isinstance(value, list) else None
