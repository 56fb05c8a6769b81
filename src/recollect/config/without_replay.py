"""A configuration without its replay."""

from __future__ import annotations

from recollect.config.schema.config import Config


def without_replay(config: Config) -> Config:
    """Switch replay off, and with it what would be refused because nothing is replayed."""
    off = {
        "replay": {"modes": (), "retire": False, "participation": "train"},
        "pool": {"start_from": None},
        "adapt": {"controller": False, "uses": "fixed", "early_rows": None},
    }
    sections = {name: getattr(config, name).model_copy(update=new) for name, new in off.items()}
    return config.model_copy(update=sections)
