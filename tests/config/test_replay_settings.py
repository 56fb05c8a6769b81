"""The sections of replay: defaults, bounds, and rules that name the settings they are about."""

from __future__ import annotations

import pytest
import yaml

from recollect.config import load_config
from recollect.config.values import values_of
from recollect.errors import BadConfig


def accepted(*flags: str) -> None:
    """Load settings, and find all of them as they were given."""
    values = values_of(load_config(None, list(flags)).config)
    for flag in flags:
        key, _, text = flag.partition("=")
        assert values[key] == yaml.safe_load(text), flag


def refused(*flags: str) -> str:
    with pytest.raises(BadConfig) as caught:
        load_config(None, list(flags))
    return str(caught.value)


def test_replay_is_off_unless_asked_for() -> None:
    config = load_config().config
    assert config.replay.modes == ()
    assert not config.replay.on
    assert load_config(None, ["replay.modes=[mix]"]).config.replay.on
    assert load_config(None, ["replay.retire=true"]).config.replay.on


def test_modes_are_a_list_of_known_words() -> None:
    config = load_config(None, ["replay.modes=[mix,repair,buffer]"]).config
    assert config.replay.modes == ("mix", "repair", "buffer")
    assert "replay.modes" in refused("replay.modes=[mixed]")
    assert "replay.modes" in refused("replay.modes=7")


CONFLICTS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("replay.modes=[mix,mix]",), ("replay.modes", "twice", "replay.modes=[mix]")),
    (
        ("replay.modes=[mix,repair]", "replay.participation=baseline"),
        ("replay.participation", "replay.modes", "repair", "would do nothing"),
    ),
    (
        ("replay.modes=[buffer]", "replay.participation=off"),
        ("replay.participation", "replay.modes", "buffer"),
    ),
    (
        ("replay.modes=[mix]", "replay.mix_rows=4", "rollout.rows_per_task=4"),
        ("replay.mix_rows", "replay.min_fresh_rows", "rollout.rows_per_task"),
    ),
    (
        ("replay.modes=[mix]", "replay.mix_rows=2", "replay.min_fresh_rows=7"),
        ("replay.mix_rows", "replay.min_fresh_rows", "rollout.rows_per_task"),
    ),
    (("pool.lower=0.5", "pool.upper=0.5"), ("pool.lower", "pool.upper", "pool.bounds")),
    (("pool.lower=0.6", "pool.upper=0.5", "pool.bounds_inclusive=true"), ("pool.lower",)),
    (("pool.upper=7",), ("pool.upper", "pool.bounds=successes")),
    (("pool.lower=1.5",), ("pool.lower", "pool.bounds=successes")),
    (("pool.lower=8", "pool.upper=2", "pool.bounds=successes"), ("pool.lower", "pool.upper")),
    # Eight rows a group: none has more than 8 successes, and no share of 8 or fewer is within.
    (
        ("replay.modes=[buffer]", "pool.bounds=successes", "pool.lower=8"),
        ("ever be replayed", "rollout.rows_per_task = 8", "pool.bounds_inclusive=true"),
    ),
    (
        ("replay.modes=[buffer]", "pool.lower=0.9", "pool.upper=0.95"),
        ("no group of up to", "rate between pool.lower = 0.9 and pool.upper = 0.95"),
    ),
    # Only groups without a success: what they hold is not drawn, or not kept.
    (
        ("replay.modes=[mix]", "pool.bounds=successes", "pool.upper=1"),
        ("with a success has successes between", "pool.upper = 1"),
    ),
    (
        ("replay.modes=[buffer]", "pool.keep=successes", "pool.upper=0.1"),
        ("with a success has rate between", "pool.upper = 0.1"),
    ),
]


@pytest.mark.parametrize(("flags", "words"), CONFLICTS, ids=lambda each: " ".join(each)[:60])
def test_conflicts_name_the_settings_and_what_to_do(
    flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    text = refused(*flags)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "flags",
    [
        ("pool.lower=0.5", "pool.upper=0.5", "pool.bounds_inclusive=true"),
        ("pool.lower=0", "pool.upper=8", "pool.bounds=successes"),
        ("pool.upper=1",),
        ("replay.modes=[buffer]", "pool.bounds=successes", "pool.lower=7"),
        ("replay.modes=[buffer]", "pool.bounds=successes", "pool.upper=1"),  # failures teach
        ("replay.modes=[mix]", "pool.upper=0.13"),  # one of eight
        ("replay.modes=[mix]", "pool.lower=0.82", "pool.upper=0.85"),  # six of seven
        ("replay.modes=[buffer]", "pool.lower=0.9", "pool.upper=0.95", "pool.start_from=other"),
        ("replay.modes=[buffer]", "pool.lower=0.9", "pool.upper=0.95", "rollout.rows_per_task=16"),
        ("pool.bounds=successes", "pool.lower=8"),  # nothing is replayed
        ("replay.modes=[mix]", "replay.participation=baseline"),
        ("replay.mix_rows=100",),  # nothing is mixed
        ("draw.max_per_task=2", "draw.max_domain_share=0.5", "replay.modes=[buffer]"),
    ],
)
def test_what_goes_together(flags: tuple[str, ...]) -> None:
    accepted(*flags)


@pytest.mark.parametrize(
    "flag",
    [
        "replay.mix_ratio=1.5", "replay.mix_ratio=-0.1", "replay.mix_rows=0",
        "replay.buffer_updates=0", "replay.buffer_rows=0", "replay.start_success=2",
        "replay.start_progress=-1", "replay.retest_steps=0", "replay.participation=never",
        "pool.max_age=0", "pool.max_uses=0", "pool.cooldown=-1", "pool.min_ess=0",
        "pool.max_ratio=1", "pool.max_rows=0", "pool.keep=failures",
        "draw.alpha=-1", "draw.beta=1.5", "draw.half_life=0", "draw.bucket_sigma=0",
        "draw.max_domain_share=0", "draw.choice=argmin", "draw.priority=td",
        "correction.kind=none", "correction.level=turn", "correction.weight=-1",
        "correction.shape_beta=0", "correction.cap=0", "correction.band_low=1.5",
        "correction.band_high=0.5", "correction.dual_clip=1", "correction.drop_above=1",
        "correction.old_logprobs=guessed",
    ],
)  # fmt: skip
def test_bounds(flag: str) -> None:
    key = flag.partition("=")[0]
    assert key in refused(flag)


def test_every_choice_can_be_written() -> None:
    """The word none means no value at all, so it cannot be a choice."""
    for kind in ("equal", "advantage", "stored", "reward", "likelihood"):
        assert load_config(None, [f"draw.priority={kind}"]).config.draw.priority == kind


def test_near_misses_are_named() -> None:
    assert "replay.mix_ratio" in refused("replay.mixratio=0.5")
    assert "correction.kind" in refused("correction.kin=clip")
