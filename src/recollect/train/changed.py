"""Settings of a run that were changed to ones that its checkpoint does not fit."""

from __future__ import annotations

from pathlib import Path

from recollect.config.schema.config import Config
from recollect.errors import BadConfig
from recollect.models.adapter import has_adapter, read_adapter
from recollect.models.loading import place_of


def changed(folder: Path, what: str, settings: str) -> BadConfig:
    """Say which settings a checkpoint does not fit, and what it has instead."""
    # The checkpoint is whole, and all that there is of the run: nobody should delete it.
    told = f"The checkpoint {folder} {what}: {settings} was changed since it was saved."
    return BadConfig([(told, "Change it back in the run's config.yaml, or begin a new run.")])


def check_adapters(config: Config, folder: Path) -> None:
    """Refuse a checkpoint whose adapters are not those that the configuration asks for.

    Loaded all the same, a checkpoint's own adapters would go on training, whatever is asked for.
    """
    lora = config.model.lora
    if not has_adapter(str(folder)):
        if lora.rank:
            raise changed(folder, "has no adapters", "model.lora.rank")
        return
    found = read_adapter(str(folder))
    if found.base != place_of(config.model.name):
        return  # the run began with adapters that were there: they are as they are
    if found.rank != lora.rank:
        rank = "of unknown rank" if found.rank is None else f"of rank {found.rank:g}"
        raise changed(folder, f"has adapters {rank}", "model.lora.rank")
    for name, saved, asked in (
        ("alpha", found.alpha, lora.alpha),
        ("dropout", found.dropout, lora.dropout),
    ):
        if saved != asked:
            told = f"has adapters with {name} {'unknown' if saved is None else f'{saved:g}'}"
            raise changed(folder, told, f"model.lora.{name}")
