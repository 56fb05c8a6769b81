"""Flags: every type, appending, single options, and what is refused."""

import pytest

from recollect.canonical import Json
from recollect.config import load_config
from recollect.config.values import values_of
from recollect.errors import BadConfig, BadConfigFile


@pytest.mark.parametrize(
    ("flag", "key", "value"),
    [
        ("run.steps=7", "run.steps", 7),
        ("run.steps = 1_000", "run.steps", 1000),
        ("train.learning_rate=3e-4", "train.learning_rate", 3e-4),
        ("train.learning_rate=1", "train.learning_rate", 1.0),
        ("model.gradient_checkpointing=true", "model.gradient_checkpointing", True),
        ("telemetry.progress=False", "telemetry.progress", False),
        ("model.name=Qwen/Qwen2.5-3B-Instruct", "model.name", "Qwen/Qwen2.5-3B-Instruct"),
        ("model.name=C:\\models\\x # y", "model.name", "C:\\models\\x # y"),
        ("model.name=a=b", "model.name", "a=b"),
        ("model.name='x: [y'", "model.name", "x: [y"),
        ('run.name="42"', "run.name", "42"),
        ("run.name=", "run.name", ""),
        ("environment.name=single_turn:p.jsonl", "environment.name", "single_turn:p.jsonl"),
        ("environment.levels=[1, 3]", "environment.levels", [1, 3]),
        ("environment.levels=none", "environment.levels", None),
        ("environment.tasks=null", "environment.tasks", None),
        ("algo.dual_clip=3", "algo.dual_clip", 3.0),
        ("algo.dual_clip=None", "algo.dual_clip", None),
        ("algo.loss=cispo", "algo.loss", "cispo"),
        ("telemetry.sinks=[wandb]", "telemetry.sinks", ["wandb"]),
        ("telemetry.sinks+=wandb", "telemetry.sinks", ["wandb"]),
        ("telemetry.sinks+=[wandb, trackio]", "telemetry.sinks", ["wandb", "trackio"]),
        ("telemetry.sinks += wandb", "telemetry.sinks", ["wandb"]),
        ("model.lora.rank=8", "model.lora.rank", 8),
        ("model.lora={rank: 8}", "model.lora.rank", 8),
        ("environment.options={size: 20}", "environment.options.size", 20),
        ("environment.options.size=20", "environment.options.size", 20),
        ("environment.options.kinds=[a, b]", "environment.options.kinds", ["a", "b"]),
        ("environment.options.a.b.c=1", "environment.options.a", {"b": {"c": 1}}),
    ],
)  # fmt: skip
def test_a_flag_sets_a_value(flag: str, key: str, value: Json) -> None:
    loaded = load_config(None, [flag])
    found = values_of(loaded.config)[key]
    assert found == value
    assert type(found) is type(value)
    assert loaded.sources[key].text == f"flag {flag}"


def test_the_last_flag_wins() -> None:
    loaded = load_config(None, ["run.steps=1", "run.steps=2"])
    assert loaded.config.run.steps == 2
    assert loaded.sources["run.steps"].text == "flag run.steps=2"


def test_appending_goes_on_top_of_what_is_there() -> None:
    source = {"environment": {"levels": [1], "options": {"kinds": ["a"]}}}
    flags = ["environment.levels+=2", "environment.levels+=[3, 4]", "environment.options.kinds+=b"]
    environment = load_config(source, flags).config.environment
    assert environment.levels == (1, 2, 3, 4)
    assert environment.options == {"kinds": ["a", "b"]}


def test_one_option_changes_and_the_others_stay() -> None:
    source = {"environment": {"options": {"size": 5, "deep": {"x": 1, "y": 2}}}}
    loaded = load_config(source, ["environment.options.size=6", "environment.options.deep.x=3"])
    assert loaded.config.environment.options == {"size": 6, "deep": {"x": 3, "y": 2}}
    assert source == {"environment": {"options": {"size": 5, "deep": {"x": 1, "y": 2}}}}


def test_a_mapping_flag_replaces_all_options() -> None:
    source = {"environment": {"options": {"size": 5}}}
    replaced = load_config(source, ["environment.options={shaped: true}"]).config
    assert replaced.environment.options == {"shaped": True}
    assert load_config(source, ["environment.options={}"]).config.environment.options == {}
    again = load_config(source, ["environment.options={}", "environment.options.size=1"]).config
    assert again.environment.options == {"size": 1}


def test_an_empty_section_flag_changes_nothing() -> None:
    assert load_config(None, ["train={}"]).config == load_config().config


@pytest.mark.parametrize(
    ("flag", "what", "hint"),
    [
        ("run.stepz=3", "run.stepz is not a setting", "Did you mean run.steps?"),
        ("steps=3", "steps is not a setting", "Did you mean run.steps?"),
        ("lr=3", "lr is not a setting", "Did you mean train.learning_rate?"),
        ("train.lr=3", "train.lr is not a setting", "Did you mean train.learning_rate?"),
        ("run.steps.x=3", "run.steps.x is not a setting", ""),
        ("run.steps=x", "run.steps must be a whole number, not 'x'", "whole number from 1"),
        ("run.steps=1e3", "must be a whole number, not 1000.0", "Write 1000."),
        ("run.steps=none", "must be a whole number, not None", "cannot be none"),
        ("run.steps=0", "run.steps must be at least 1, not 0", ""),
        ("run.name=42", "run.name must be text, not 42", "quotes"),
        ("telemetry.progress=yes", "must be true or false, not 'yes'", "Write true or false."),
        ("telemetry.progress=1", "must be true or false, not 1", "Write true or false."),
        ("environment.levels=2", "environment.levels must be a list, not 2", "[2]"),
        ("environment.levels=[1, a]", "environment.levels[1] must be a whole number", ""),
        ("environment.levels=[]", "environment.levels must not be empty", ""),
        ("environment.levels+=2", "is none, so there is no list", "environment.levels=[...]"),
        ("train.eps+=2", "train.eps is not a list", "Use = instead"),
        ("train+=2", "train is not a list", "Use = instead"),
        ("train=2", "train is a section and cannot be set to 2", "such as train.learning_rate"),
        ("environment.options.x+=1", "there is no list", "environment.options.x=[...]"),
        ("environment.options=3", "environment.options must be a mapping, not 3", "mapping"),
        ("algo.loss=ppo", "algo.loss must be one of ppo_clip, ", "Did you mean ppo_clip?"),
        ("telemetry.sinks=[wandb, wandb]", "telemetry.sinks must name each tracker once", ""),
        ("telemetry.sinks=[wanbd]", "telemetry.sinks[0] must be one of", "Did you mean wandb?"),
        ("train.learning_rate=.nan", ".nan is not a finite number", "quotes"),
        ("rollout.top_p=0", "rollout.top_p must be above 0, not 0", ""),
        ("run.name=a/b", "run.name cannot be 'a/b'", "up to 64 letters"),
        ("preset=dmeo", "there is no preset 'dmeo'", "Did you mean demo?"),
        ("preset=3", "there is no preset 3", "Presets: baseline, conservative"),
    ],
)
def test_a_wrong_flag_is_named(flag: str, what: str, hint: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load_config(None, [flag])
    assert caught.value.what.startswith(f"flag {flag}: ")
    assert what in caught.value.what
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("run.steps", "key=value"),
        ("=3", "key=value"),
        ("run..steps=3", "key=value"),
        ("", "key=value"),
        (".".join("x" * 40) + "=1", "key=value"),
        ("--run.steps=3", "no dashes: run.steps=3"),
        ("run.name=\udcff", "key=value"),
    ],
)
def test_what_is_no_flag_at_all(flag: str, hint: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load_config(None, [flag])
    assert hint in caught.value.hint


def test_broken_yaml_in_a_flag_is_named() -> None:
    with pytest.raises(BadConfigFile, match=r"flag environment.levels=\[1: is not valid YAML"):
        load_config(None, ["environment.levels=[1"])


def test_an_option_that_is_no_mapping_has_nothing_below_it() -> None:
    source = {"environment": {"options": {"size": 5}}}
    with pytest.raises(BadConfig, match=r"Set environment.options.size as a whole"):
        load_config(source, ["environment.options.size.x=1"])
    with pytest.raises(BadConfig, match=r"Set environment.options.a as a whole"):
        load_config(source, ["environment.options.a.b+=1"])


def test_a_flag_rescues_a_wrong_file_value() -> None:
    wrong = {"environment": {"options": 3}, "run": {"steps": "x"}}
    assert load_config(wrong, ["environment.options.size=1", "run.steps=2"]).config.run.steps == 2


def test_long_flags_are_cut_in_messages() -> None:
    with pytest.raises(BadConfig) as caught:
        load_config(None, [f"run.{'x' * 5000}=1"])
    assert len(caught.value.what) < 200


@pytest.mark.parametrize(
    "flag",
    [
        "store.path=postgres://u:SECRETPW@h/db",
        "store.path=postgres://u:a/SECRETPW@h/db",
        "store.path=postgres://u:a?SECRETPW@h/db",
        "store.path=postgres://u:SECRETPW\u2100@h/db",
        "store.retry_seconds=postgres://u:SECRETPW@h/db",
        "store=postgres://u:SECRETPW@h/db",
        "stor.path=postgres://u:SECRETPW@h/db",
        "--store.path=postgres://u:SECRETPW@h/db",
    ],
)
def test_a_password_in_a_flag_is_refused_and_not_shown(flag: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load_config("demo", [flag])
    assert "SECRETPW" not in f"{caught.value} {caught.value.what} {caught.value.hint}"
