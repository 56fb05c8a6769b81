"""A configuration without its replay."""

from __future__ import annotations

from recollect.config.loading import load_config
from recollect.config.schema.config import Config

# What switches replay off, and with it what would be refused because nothing is replayed.
OFF = (
    "replay.modes=[]",
    "replay.retire=false",
    "replay.participation=train",
    "pool.start_from=none",
    "adapt.controller=false",
    "adapt.uses=fixed",
    "adapt.early_rows=none",
)


def without_replay(config: Config) -> Config:
    """Switch replay off."""
    return load_config(config.model_dump(mode="json"), OFF).config
