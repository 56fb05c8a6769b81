"""Settings that do not fit what is saved: a run's checkpoint, the adapter that it begins with."""

from __future__ import annotations

from pathlib import Path

from recollect.config.schema.config import Config
from recollect.config.schema.model import LoraSettings
from recollect.errors import BadConfig
from recollect.models.adapter import Adapter, has_adapter, read_adapter
from recollect.models.catalog import folder_of
from recollect.models.loading import place_of

_SHOWN = 8  # names of modules in a message
_SHORTENED = 20  # names of modules from which on peft may write down fewer, with the same meaning


def changed(folder: Path, what: str, settings: str) -> BadConfig:
    """Say which settings a checkpoint does not fit, and what it has instead."""
    # The checkpoint is whole, and all that there is of the run: nobody should delete it.
    told = f"The checkpoint {folder} {what}: {settings} was changed since it was saved."
    return BadConfig([(told, "Change it back in the run's config.yaml, or begin a new run.")])


def check_adapters(config: Config, folder: Path) -> None:
    """Refuse a checkpoint whose adapters are not those that the configuration asks for.

    Loaded all the same, a checkpoint's own adapters would go on training, whatever is asked for.
    """
    name, lora = config.model.name, config.model.lora
    if not has_adapter(str(folder)):
        if lora.rank:
            raise changed(folder, "has no adapters", "model.lora.rank")
        return
    found = read_adapter(str(folder))
    if not _is_base(found.base, name):
        # The run began with adapters that were there, in a folder that may be gone by now.
        if has_adapter(name) or _is_gone(name):
            return
        moved = folder_of(name) is None and _is_gone(found.base)  # to where model.name is now
        if not moved:
            raise changed(folder, f"has adapters of {found.base}", "model.name")
    different = _difference(found, lora)
    if different is not None:
        setting, has = different
        raise changed(folder, f"has adapters {has}", setting)


def check_beginning(config: Config) -> None:
    """Refuse other adapters than those of the folder that a run begins with.

    They train on as they are, and nothing that is asked for here would change them.
    """
    name, lora = config.model.name, config.model.lora
    if not lora.rank or not has_adapter(name):
        return
    different = _difference(read_adapter(name), lora)
    if different is not None:
        setting, has = different
        told = f"{setting} asks for other adapters than those of model.name: {name} has them {has},"
        change = f"Set {setting} to that, or model.lora.rank=0 to take them as they are."
        raise BadConfig([(f"{told} and trains on with them.", change)])


def _is_base(base: str, name: str) -> bool:
    """Tell whether adapters belong to a model; one of ours may have moved, with the package."""
    ours = folder_of(name)
    return base == place_of(name) or (ours is not None and ours.name == Path(base).name)


def _is_gone(name: str) -> bool:
    """Tell whether a name is that of a folder that is not there any more."""
    return Path(name).is_absolute() and not Path(name).exists()


def _difference(found: Adapter, lora: LoraSettings) -> tuple[str, str] | None:
    """Name a setting that adapters contradict, and what they have instead; None if none does."""
    if found.rank != lora.rank:
        return "model.lora.rank", f"of {_shown('rank', found.rank)}"
    for name, saved, asked in (
        ("alpha", found.alpha, lora.alpha),
        ("dropout", found.dropout, lora.dropout),
    ):
        if saved != asked:
            return f"model.lora.{name}", f"with {_shown(name, saved)}"
    saved_names, names = found.targets, lora.targets
    if names is None or saved_names is None or len(names) >= _SHORTENED:
        return None
    if set(saved_names) == set(names):
        return None
    shown = ", ".join(sorted(saved_names)[:_SHOWN])
    more = ", ..." if len(saved_names) > _SHOWN else ""
    return "model.lora.targets", f"in {len(saved_names)} modules: {shown}{more}"


def _shown(name: str, number: float | None) -> str:
    return f"unknown {name}" if number is None else f"{name} {number:g}"
