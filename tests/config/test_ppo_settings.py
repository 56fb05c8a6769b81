"""The sections of PPO and of adaptive replay: what is refused, and what to do about it."""

from __future__ import annotations

import pytest

from recollect.config import load_config

from .test_replay_settings import accepted, refused

BUFFER = ("replay.modes=[buffer]", "algo.advantage=gae")

CONFLICTS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("draw.priority=td_error",), ("draw.priority", "algo.advantage=gae", "grpo has none")),
    (
        ("algo.advantage=gae", "replay.modes=[mix]", "replay.participation=baseline"),
        ("replay.participation", "no group mean"),
    ),
    ((*BUFFER, "critic.at_use=stored", "pool.max_age=none"), ("critic.at_use", "pool.max_age")),
    (("critic.model=tiny",), ("critic.model", "critic.kind=model")),
    (("critic.kind=model", "critic.revision=abc"), ("critic.revision=none", "critic.model")),
    (("algo.kl_coef=0.1", "algo.kl_revision=abc"), ("algo.kl_revision=none", "algo.kl_reference")),
    (("replay.buffer_place=among", "replay.buffer_epochs=2"), ("train.epochs", "does nothing")),
    ((*BUFFER, "adapt.early_rows=10"), ("pool.max_rows", "which is none")),
    (("adapt.kl_low=0.02",), ("adapt.kl_low", "adapt.kl_high", "flapping")),
    ((*BUFFER, "pool.max_age=3", "train.epochs=4"), ("pool.max_age = 3", "4 updates")),
    (
        ("replay.modes=[mix]", "replay.start_rows=200", "run.steps=4"),
        ("would never start", "(4 - 1) x", "192"),
    ),
    (
        ("replay.modes=[buffer]", "replay.start_rows=200", "pool.max_rows=100"),
        ("would never start", "pool.max_rows = 100"),
    ),
    (
        ("replay.modes=[mix]", "replay.start_progress=0.76", "run.steps=4"),
        ("would never start", "replay.start_progress = 0.76", "0.75"),
    ),
    (("adapt.controller=true",), ("adapt.controller = true", "replay.modes=[buffer]")),
    (("adapt.uses=kl",), ("adapt.uses = kl", "adapt.uses=fixed")),
    (
        ("replay.modes=[mix]", "replay.participation=baseline", "adapt.controller=true"),
        ("adapt.controller = true", "replay.participation = baseline"),
    ),
    (
        ("replay.modes=[mix]", "replay.participation=off", "adapt.uses=kl"),
        ("adapt.uses = kl", "replay.participation = off"),
    ),
    (("adapt.early_rows=10", "pool.max_rows=20"), ("adapt.early_rows = 10", "does nothing")),
    (("pool.start_from=other", "replay.retire=true"), ("pool.start_from=none", "replays none")),
    (("replay.participation=off",), ("replay.participation=train", "replay.modes=[mix]")),
    (
        ("replay.modes=[mix]", "replay.participation=baseline", "algo.advantage=reward"),
        ("replay.participation", "no group mean", "algo.advantage = reward"),
    ),
    (
        ("replay.retire=true", "replay.retire_rows=9", "rollout.rows_per_task=8"),
        ("ever retire", "replay.retire_rows to 8 or less"),
    ),
]


@pytest.mark.parametrize(("flags", "words"), CONFLICTS, ids=lambda each: " ".join(each)[:60])
def test_conflicts_say_why_and_what_to_change(
    flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    text = refused(*flags)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "flags",
    [
        (*BUFFER, "replay.start_rows=192", "run.steps=4"),  # exactly what the last step finds
        ("replay.start_rows=9999",),  # nothing is replayed, nothing waits
        (*BUFFER, "replay.start_rows=9999", "pool.start_from=other"),  # nobody knows what it holds
        (*BUFFER, "replay.start_rows=9999", "store.path=shared.db"),  # rows of others count, too
        (*BUFFER, "replay.start_rows=64", "pool.max_rows=10"),  # a step's rows are there at least
        (*BUFFER, "replay.start_progress=0.75", "run.steps=4"),  # the last step replays
        (*BUFFER, "replay.start_progress=0.75", "run.steps=1"),  # to try something out
        ("replay.retire=true", "adapt.early_rows=10", "pool.max_rows=20"),  # rows leave the pool
        ("algo.advantage=gae", "rollout.rows_per_task=1"),  # a critic needs no group
        ("replay.modes=[buffer]", "pool.max_age=1", "train.epochs=4"),  # GRPO may skip updates
    ],
)
def test_what_can_work_is_accepted(flags: tuple[str, ...]) -> None:
    accepted(*flags)


def test_nothing_of_it_is_on_by_default() -> None:
    config = load_config().config
    assert config.algo.advantage == "grpo"
    assert not config.adapt.on
