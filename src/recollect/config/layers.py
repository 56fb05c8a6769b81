"""Layers of settings, one over the other: presets, then a file, then flags. The last one wins.

Sections merge, setting by setting. A list, or the options of an environment, replaces the one
below it as a whole; only a flag can append to a list or change a single option.
"""

from __future__ import annotations

from copy import deepcopy

from pydantic import BaseModel

from recollect.canonical import Json
from recollect.config.overrides import Override
from recollect.config.schema.config import Config
from recollect.config.settings import Setting, all_sections, all_settings, sections_of
from recollect.config.suggestions import suggest_key
from recollect.config.tree import Branch, Leaf, Node, Source, plain, shortened
from recollect.redaction import redact

Path = tuple[str, ...]


class Layers:
    """The settings given so far, each with the source that won, and what was wrong with any."""

    def __init__(self) -> None:
        self.leaves: dict[Path, Leaf] = {}
        self.problems: list[tuple[str, str]] = []

    def add(self, tree: Branch) -> None:
        """Put a file, a preset or a mapping on top."""
        self._add_section(Config, (), tree)

    def override(self, flag: Override) -> None:
        """Put one flag on top."""
        section: type[BaseModel] = Config
        for depth, name in enumerate(flag.path):
            inner = sections_of(section)
            if name not in inner:
                self._override_setting(flag, flag.path[: depth + 1], flag.path[depth + 1 :])
                return
            section = inner[name]
        if flag.append:
            self._not_a_list(flag, ".".join(flag.path))
        else:
            self._below(section, flag.path, flag.node)

    def nested(self) -> dict[str, Json]:
        """All given settings as one mapping of sections."""
        whole: dict[str, Json] = {}
        for path, leaf in self.leaves.items():
            inner = whole
            for name in path[:-1]:
                below = inner.setdefault(name, {})
                assert isinstance(below, dict)
                inner = below
            inner[path[-1]] = deepcopy(leaf.value)
        return whole

    def sources(self) -> dict[Path, Source]:
        """Where each given setting was written."""
        return {path: leaf.source for path, leaf in self.leaves.items()}

    def _add_section(self, section: type[BaseModel], path: Path, branch: Branch) -> None:
        inner = sections_of(section)
        for name, node in branch.entries.items():
            here = (*path, name)
            if name in inner:
                self._below(inner[name], here, node)
            elif name in section.model_fields:
                self._set(all_settings()[".".join(here)], here, node)
            else:
                self._unknown(here, node.source)

    def _below(self, section: type[BaseModel], path: Path, node: Node) -> None:
        if isinstance(node, Branch):
            self._add_section(section, path, node)
        elif node.value is not None:  # a section with nothing in it is null, and harmless
            name = ".".join(path)
            what = f"{node.source.text}: {name} is a section and cannot be set to {_show(node)}."
            example = next(key for key in all_settings() if key.startswith(f"{name}."))
            self.problems.append((what, f"Set what is in it, such as {example}."))

    def _set(self, setting: Setting, path: Path, node: Node) -> None:
        for old in [known for known in self.leaves if known[: len(path)] == path]:
            del self.leaves[old]
        if setting.is_mapping and isinstance(node, Branch) and node.entries:
            for key, entry in node.entries.items():
                self.leaves[path + (key,)] = Leaf(plain(entry), entry.source)
        else:
            self.leaves[path] = Leaf(plain(node), node.source)

    def _override_setting(self, flag: Override, path: Path, rest: Path) -> None:
        setting = all_settings().get(".".join(path))
        if setting is None or (rest and not setting.is_mapping):
            self._unknown(flag.path, flag.source)
        elif rest:
            self._override_option(flag, path, rest)
        elif not flag.append:
            self._set(setting, path, flag.node)
        elif not setting.is_list:
            self._not_a_list(flag, setting.key)
        else:
            leaf = self.leaves.get(path)
            self._append(flag, path, setting.default if leaf is None else leaf.value)

    def _override_option(self, flag: Override, path: Path, rest: Path) -> None:
        """Change one entry of a mapping, however deep; the others stay."""
        entry = (*path, rest[0])
        old = self.leaves.get(entry)
        value: Json = None if old is None else deepcopy(old.value)
        if len(rest) == 1:
            if flag.append:
                self._append(flag, entry, value)
                return
            value = plain(flag.node)
        else:
            value = {} if old is None else value
            inner = value
            for name in rest[1:-1]:
                inner = inner.setdefault(name, {}) if isinstance(inner, dict) else None
            if not isinstance(inner, dict) or flag.append:
                what = f"{flag.source.text}: {'.'.join(flag.path)} cannot be set on its own."
                self.problems.append((what, f"Set {'.'.join(entry)} as a whole."))
                return
            inner[rest[-1]] = plain(flag.node)
        self.leaves.pop(path, None)
        self.leaves[entry] = Leaf(value, flag.source)

    def _append(self, flag: Override, path: Path, old: Json) -> None:
        key = ".".join(path)
        if old is None:
            what = f"{flag.source.text}: {key} is none, so there is no list to append to."
            self.problems.append((what, f"Write the whole list: {key}=[...]"))
        elif not isinstance(old, list):
            self._not_a_list(flag, key)
        else:
            new = plain(flag.node)
            value = [*old, *new] if isinstance(new, list) else [*old, new]
            self.leaves[path] = Leaf(value, flag.source)

    def _not_a_list(self, flag: Override, key: str) -> None:
        what = f"{flag.source.text}: {shortened(key)} is not a list, so nothing can be appended."
        self.problems.append((what, "Use = instead of +=."))

    def _unknown(self, path: Path, source: Source) -> None:
        key = ".".join(path)
        if len(path) == 1 and (key in all_settings() or key in all_sections()):
            section, _, name = key.rpartition(".")
            hint = f'Settings are nested: write "{section}:", and "{name}:" indented below it.'
        else:
            hint = suggest_key(shortened(key, 200))
        self.problems.append((f"{source.text}: {shortened(key)} is not a setting.", hint))


def _show(leaf: Leaf) -> str:
    return shortened(redact(repr(leaf.value)))
