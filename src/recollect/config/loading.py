"""From a preset, a file, a mapping and flags to one frozen configuration that knows its sources.

Layers, the last one winning: defaults in the schema, presets, the file or mapping, flags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from recollect.config.from_code import tree_from_mapping
from recollect.config.layers import Layers
from recollect.config.overrides import parse_override
from recollect.config.presets import list_presets, nearest_preset, preset_text
from recollect.config.problems import problems_of
from recollect.config.schema.config import Config
from recollect.config.tree import DEFAULT, Branch, Node, Source, plain, shortened
from recollect.config.values import values_of
from recollect.config.yaml_reading import MAX_BYTES, decode_yaml, parse_yaml
from recollect.errors import BadConfig, BadConfigFile, ConfigMissing

_PRESET = "preset"
_UNNAMED = "run"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, and for each value (keys as in `values_of`) where it comes from.

    `presets` are those it builds on, in order. `name` is a short word to name runs after: the
    file's or the preset's.
    """

    config: Config
    sources: Mapping[str, Source]
    presets: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class _Given:
    """What the source says: a file's name, the presets it builds on, and its own settings."""

    name: str
    presets: tuple[str, ...]
    tree: Branch


def load_config(
    source: Path | str | Mapping[str, object] | None = None, overrides: Sequence[str] = ()
) -> LoadedConfig:
    """Load a preset by name, a YAML file by path, or a mapping, and apply flags to it.

    A file may name presets to start from: `preset: demo`, or a list of which the last one wins.
    The flag `preset=demo` replaces them (and a preset given as the source), `preset+=demo` puts
    one on top of them.

    Raises ConfigMissing, BadConfigFile (not readable as YAML) or BadConfig (wrong settings, all
    of them at once); each names the file and line, or the flag.
    """
    flags = [parse_override(text) for text in overrides]
    given = _read(source)
    presets = given.presets
    for flag in flags:
        if flag.path == (_PRESET,):
            presets = (presets if flag.append else ()) + _preset_names(flag.node)
    layers = Layers()
    for tree in [*_preset_trees(presets), given.tree]:
        layers.add(tree)
    for flag in flags:
        if flag.path != (_PRESET,):
            layers.override(flag)
    config = _validated(layers)
    return LoadedConfig(config, _sources(config, layers), presets, _name(given.name, presets))


def _read(source: Path | str | Mapping[str, object] | None) -> _Given:
    if source is None:
        return _Given("", (), Branch({}, DEFAULT))
    if isinstance(source, Mapping):
        return _split("", tree_from_mapping(source))
    if isinstance(source, str) and source in list_presets():
        return _Given("", (source,), Branch({}, DEFAULT))
    path = Path(source)
    place = Source("file", str(source))
    return _split(path.stem, parse_yaml(decode_yaml(_bytes(path, str(source)), place), place))


def _bytes(path: Path, given: str) -> bytes:
    """Read a file, never much more of it than a configuration may hold."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigMissing(given, tuple(list_presets()), _nearest(path, given)) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        why = getattr(error, "strerror", None) or str(error)
        hint = "Give the path of a YAML file, or the name of a preset."
        raise BadConfigFile(shortened(given, 200), f"cannot be read: {why}", hint) from error


def _nearest(path: Path, given: str) -> str:
    """Name the file or preset that may have been meant."""
    for suffix in (".yaml", ".yml"):
        near = path.with_name(path.name + suffix) if path.name else path
        if near.is_file():
            return str(near)
    return nearest_preset(given)


def _split(name: str, tree: Branch) -> _Given:
    own = {key: node for key, node in tree.entries.items() if key != _PRESET}
    chosen = tree.entries.get(_PRESET)
    presets = _preset_names(chosen) if chosen is not None else ()
    return _Given(name, presets, Branch(own, tree.source))


def _preset_names(node: Node) -> tuple[str, ...]:
    """Read the value of `preset`: a name, a list of names, or none."""
    value = plain(node)
    names = [] if value is None else value if isinstance(value, list) else [value]
    known = list_presets()
    for name in names:
        if not isinstance(name, str) or name not in known:
            near = nearest_preset(name) if isinstance(name, str) else ""
            hint = f"Did you mean {near}? " if near else ""
            what = f"{node.source.text}: there is no preset {shortened(repr(name))}."
            raise BadConfig([(what, f"{hint}Presets: {', '.join(known)}.")])
    return tuple(str(name) for name in names)


def _preset_trees(names: Sequence[str]) -> list[Branch]:
    """The presets' settings in order, each after those it builds on itself."""
    trees: list[Branch] = []
    for name in names:
        given = _split(name, parse_yaml(preset_text(name), Source("preset", name)))
        trees += [*_preset_trees(given.presets), given.tree]
    return trees


def _validated(layers: Layers) -> Config:
    """Check everything; raises BadConfig with whatever the layers or the schema found."""
    problems = list(layers.problems)
    try:
        config = Config.model_validate(layers.nested())
    except ValidationError as error:
        problems += problems_of(error, layers.sources())
        raise BadConfig(problems) from None
    if problems:
        raise BadConfig(problems)
    return config


def _sources(config: Config, layers: Layers) -> Mapping[str, Source]:
    written = {".".join(path): source for path, source in layers.sources().items()}
    return {key: written.get(key, DEFAULT) for key in values_of(config)}


def _name(given: str, presets: Sequence[str]) -> str:
    """Make a word that can begin a run's name."""
    name = given or "-".join(presets)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:40] or _UNNAMED
