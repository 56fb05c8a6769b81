import pytest

from recollect.telemetry.names import (
    METRICS,
    ROOMS,
    STEP_PHASES,
    find_metric,
    is_reproducible,
    within,
)

from .naming import undocumented

PROMISED = [
    "train/loss",
    "train/grad_norm",
    "train/learning_rate",
    "train/tokens",
    "train/rows",
    "train/skipped_steps",
    "reward/mean",
    "reward/std",
    "reward/success",
    "reward/dead_groups",
    "policy/kl",
    "policy/entropy",
    "policy/ratio_max",
    "policy/clip_share",
    "policy/logprob_diff",
    "rollout/rows",
    "rollout/failed",
    "rollout/tokens",
    "rollout/sampled_tokens",
    "rollout/turns",
    "rollout/length",
    "rollout/truncated",
    "eval/success",
    "eval/reward",
    "eval/success/airline",
    "eval/success/airline/3",
    "time/plan",
    "time/collect",
    "time/commit",
    "time/score",
    "time/update",
    "time/record",
    "time/step",
    "perf/rows_per_s",
    "perf/tokens_per_s",
    "health/failed_episodes",
    "health/bad_steps",
    "health/sink_drops",
]


def test_every_promised_name_is_there() -> None:
    assert undocumented(PROMISED) == []


def test_names_are_unique_and_live_in_a_room() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert {metric.room for metric in METRICS} == set(ROOMS)


def test_texts_are_sentences() -> None:
    for metric in METRICS:
        assert metric.text.endswith(".")
        assert "|" not in metric.text  # it goes into a table


def test_every_phase_has_its_time() -> None:
    assert undocumented(f"time/{phase}" for phase in STEP_PHASES) == []


@pytest.mark.parametrize(
    "name",
    [
        "loss",
        "train/lost",
        "train/loss/",
        "train/loss/airline",
        "eval/success/",
        "eval/success/air line",
        "eval/success/a/b/c",
        "eval/success/<domain>",
        "eval/success/a\n",
        "",
    ],
)
def test_other_names_are_known_to_nobody(name: str) -> None:
    assert find_metric(name) is None
    assert undocumented(["train/loss", name]) == [name]


def test_wildcards_find_their_metric() -> None:
    found = find_metric("eval/success/air-line_2.0/4")
    assert found is not None
    assert found.name == "eval/success/<domain>/<level>"


def test_within_gives_documented_names_for_any_domain() -> None:
    assert within("eval/success", "airline", 2) == "eval/success/airline/2"
    names = [within("eval/success", domain) for domain in ("a/b", "air line", "ä", "", "a\n")]
    assert undocumented(names) == []


def test_only_readings_of_the_clock_and_of_others_may_differ() -> None:
    assert is_reproducible("train/loss")
    assert is_reproducible("eval/success/airline")
    assert not is_reproducible("time/step")
    assert not is_reproducible("perf/rows_per_s")
    assert not is_reproducible("health/sink_drops")
    assert not is_reproducible("nobody/knows")
