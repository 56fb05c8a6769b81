"""The command that doctor proposes is one that training accepts."""

from __future__ import annotations

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.doctor.finding import Finding, change
from recollect.doctor.trial import trial_flags


def config_of(*flags: str) -> Config:
    return load_config("demo", flags).config


def finding(config: Config, *changes: tuple[str, object]) -> Finding:
    found = tuple(change(config, setting, to, "") for setting, to in changes)  # type: ignore[arg-type]
    return Finding("replay", "something", "Something is wrong.", (), found)


def accepted(config: Config, *findings: Finding) -> Config:
    flags = trial_flags(config, findings)
    return load_config(config.model_dump(mode="json"), flags).config


def test_without_replay_goes_what_only_replay_reads() -> None:
    config = config_of("adapt.controller=true", "adapt.uses=kl")
    tried = accepted(config, finding(config, ("replay.modes", [])))
    assert not tried.replay.modes
    assert not tried.adapt.controller
    assert tried.adapt.uses == "fixed"


def test_a_change_that_is_refused_alone_brings_its_finding_s_others() -> None:
    config = config_of("rollout.max_tokens=4096", "rollout.max_turn_tokens=40")
    longer = finding(config, ("rollout.max_tokens", 8192), ("train.pack_tokens", 8192))
    rate = finding(config, ("train.learning_rate", 1e-4))
    tried = accepted(config, longer, rate)
    assert (tried.rollout.max_tokens, tried.train.pack_tokens) == (8192, 8192)
    assert tried.train.learning_rate == 1e-4


def test_what_nothing_helps_is_left_out() -> None:
    config = config_of()
    refused = finding(config, ("algo.clip_low", 7.0))
    rate = finding(config, ("train.learning_rate", 1e-4))
    assert trial_flags(config, [refused, rate]) == ["train.learning_rate=0.0001"]
