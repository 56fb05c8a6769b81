"""A configuration to look at, to write down, and to compare."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.canonical import Json
from recollect.config.loading import LoadedConfig
from recollect.config.scalars import spell, spell_text
from recollect.config.schema.config import Config
from recollect.config.settings import all_sections, all_settings
from recollect.config.tree import shortened
from recollect.config.values import values_of


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs between two configurations; None where one lacks the option."""

    key: str
    before: str | None
    after: str | None


def resolved_lines(loaded: LoadedConfig) -> list[str]:
    """Write every value with where it came from, by section, in aligned columns."""
    lines: list[str] = []
    values = values_of(loaded.config)
    for section in all_sections():
        names = {key: _within(key, section) for key in values if _section(key) == section}
        if not names:
            continue
        lines += ["", section] if lines else [section]
        shown = {key: shortened(spell(values[key])) for key in names}
        left = max(len(name) for name in names.values())
        middle = max(len(text) for text in shown.values())
        for key, name in names.items():
            source = loaded.sources[key].text
            lines.append(f"  {name.ljust(left)}  {shown[key].ljust(middle)}  {source}")
    return lines


def as_yaml(config: Config) -> str:
    """Write the whole configuration; loading the text gives an equal one.

    Other YAML readers, of version 1.1 too, find the same values in it.
    """
    lines: list[str] = []
    values = values_of(config)
    for section in all_sections():
        indent = "  " * section.count(".")
        lines.append(f"{indent}{section.rpartition('.')[2]}:")
        for key, setting in all_settings().items():
            if _section(key) != section:
                continue
            name = f"{indent}  {_within(key, section)}:"
            if not setting.is_mapping or key in values:
                lines.append(f"{name} {spell(values[key], null='null')}")
                continue
            lines.append(name)
            for entry, value in values.items():
                if entry.startswith(f"{key}."):
                    option = spell_text(entry[len(key) + 1 :])
                    lines.append(f"{indent}    {option}: {spell(value, null='null')}")
    return "\n".join(lines) + "\n"


def diff(a: Config, b: Config) -> tuple[Change, ...]:
    """List the settings in which two configurations differ, in the order of the schema."""
    before, after = values_of(a), values_of(b)
    keys = [key for key in before if key in after] + [k for k in after if k not in before]
    keys += [key for key in before if key not in after]
    order = {key: place for place, key in enumerate(all_settings())}
    changes = [Change(key, _spelt(before, key), _spelt(after, key)) for key in keys]
    found = [change for change in changes if change.before != change.after]
    return tuple(sorted(found, key=lambda change: (order[_setting(change.key)], change.key)))


def _spelt(values: dict[str, Json], key: str) -> str | None:
    return spell(values[key]) if key in values else None


def _setting(key: str) -> str:
    """The setting a value belongs to: options have longer keys than theirs."""
    if key in all_settings():
        return key
    return next(known for known in all_settings() if key.startswith(f"{known}."))


def _section(key: str) -> str:
    return _setting(key).rpartition(".")[0]


def _within(key: str, section: str) -> str:
    return key[len(section) + 1 :]
