"""What is shown is what is loaded: listings, YAML round trips, differences."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.config import (
    Change,
    Config,
    as_yaml,
    diff,
    list_presets,
    load_config,
    resolved_lines,
)
from recollect.config.tree import Source, plain
from recollect.config.values import values_of
from recollect.config.yaml_reading import parse_yaml

ODD = ["run.name=\"0x1\"", "model.name='off'", "environment.name=a:b", "store.path=1e-3x",
       "train.learning_rate=1e-12", "environment.levels=[1, 2]", "telemetry.sinks=[wandb]",
       "environment.options={a: {b: [1, 1.0, none, 'none', \"\\x1b\"]}, 'x.y': ~, '': 0}",
       "model.lora.rank=2", "model.lora.targets=[a]", "algo.dual_clip=3"]  # fmt: skip


@pytest.mark.parametrize("source", [None, *list_presets()])
@pytest.mark.parametrize("flags", [[], ODD])
def test_yaml_round_trip(tmp_path: Path, source: str | None, flags: list[str]) -> None:
    config = load_config(source, flags).config
    path = tmp_path / "whole.yaml"
    path.write_text(as_yaml(config), encoding="utf-8")
    again = load_config(path)
    assert again.config == config
    assert as_yaml(again.config) == as_yaml(config)
    assert {source.kind for source in again.sources.values()} == {"file"}
    assert yaml.safe_load(as_yaml(config)) == config.model_dump(mode="json")


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(
    options=st.dictionaries(texts.filter(lambda t: t != "levels"), json_values, max_size=4),
    name=texts.filter(lambda t: "\0" not in t),
    rate=st.floats(0, 1e300),
)
@settings(max_examples=50)
def test_any_values_survive(options: dict[str, object], name: str, rate: float) -> None:
    given = {"environment": {"options": options, "name": name}, "train": {"learning_rate": rate}}
    config = load_config(given).config
    tree = plain(parse_yaml(as_yaml(config), Source("file", "x")))
    assert isinstance(tree, dict)
    assert repr(tree["environment"]) == repr(config.model_dump(mode="json")["environment"])
    assert load_config(tree).config == config


def test_every_value_is_listed_with_its_source(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("preset: demo\nrun:\n  seed: 5\n", encoding="utf-8")
    loaded = load_config(path, ["environment.options.size=3"])
    lines = resolved_lines(loaded)
    assert lines[0] == "run"
    assert len([line for line in lines if line.startswith("  ")]) == len(values_of(loaded.config))
    columns = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines if line[:2] == "  "}
    assert columns["seed"] == ["5", f"{path}:3"]
    assert columns["device"] == ["cpu", "preset demo, line 8"]
    assert columns["options.size"] == ["3", "flag environment.options.size=3"]
    assert columns["folder"] == ["runs", "default"]
    assert all(line.isprintable() for line in lines)


def test_long_values_are_cut_in_the_listing_only() -> None:
    loaded = load_config(None, [f"run.folder={'x' * 500}"])
    assert max(map(len, resolved_lines(loaded))) < 200
    assert "x" * 500 in as_yaml(loaded.config)


def test_differences() -> None:
    a = load_config(None, ["environment.options={x: 1, y: 2}", "run.seed=1"]).config
    b = load_config(None, ["environment.options={x: true, z: 3}", "algo.dual_clip=3"]).config
    assert diff(a, a) == ()
    assert diff(a, b) == (
        Change("run.seed", "1", "0"),
        Change("environment.options.x", "1", "true"),
        Change("environment.options.y", "2", None),
        Change("environment.options.z", None, "3"),
        Change("algo.dual_clip", "none", "3.0"),
    )
    assert diff(Config(), load_config(None, ["environment.options.x=1"]).config) == (
        Change("environment.options", "{}", None),
        Change("environment.options.x", None, "1"),
    )
