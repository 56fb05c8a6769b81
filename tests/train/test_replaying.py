"""Where the loop meets the replay room: settings become rules, updates become ledger entries."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recollect.ledger import Draw, Use
from recollect.replay.book import Result, Retirement
from recollect.replay.controller import Measured
from recollect.replay.eviction import Keeping
from recollect.replay.policy import Amounts, Budget
from recollect.replay.settings import replay_policy, retirement, triggers
from recollect.replay.starting import Triggers
from recollect.replay.weights import Weighing
from recollect.store.records import Batch as StoreBatch
from recollect.train.batch import Batch, ScoredRow
from recollect.train.drawn import Drawn
from recollect.train.replayed import Ratios, Replayed, RowUse
from recollect.train.replaying import (
    drifted,
    left_out_scores,
    make_replayer,
    measured_of,
    results_of,
    scores_of,
    uses_of,
)
from recollect.train.totals import Totals
from recollect.trajectory import Trajectory
from recollect.types import GroupId, RunId, TrajectoryId
from replay.pools import PRINTS, TASKS, Plant, planted
from replay.pools import RUN as OWN

from .learning import learner_of
from .replays import stored
from .rows import make_row
from .small import collect_rows, load_small, make_config

RUN = RunId("run")


@pytest.fixture(scope="module")
def rows(model: Path) -> tuple[Trajectory, ...]:
    return collect_rows(load_small(model), make_config(model))


# -- settings -----------------------------------------------------------------------------


def test_every_setting_reaches_its_rule() -> None:
    flags = (
        "pool.max_age=7", "pool.max_uses=3", "pool.cooldown=2", "pool.min_ess=0.4",
        "pool.max_ratio=5", "draw.priority=stored", "draw.alpha=0.7", "draw.half_life=6",
        "draw.buckets=gaussian", "draw.bucket_center=0.4", "draw.bucket_sigma=0.2",
        "replay.modes=[mix,repair,buffer]", "replay.mix_ratio=0.25", "replay.mix_rows=2",
        "replay.repair_rows=3", "replay.buffer_updates=4", "replay.buffer_rows=5",
        "draw.max_per_task=6", "draw.max_domain_share=0.3", "draw.beta=0.9", "pool.lower=1",
        "draw.beta_growth=0.01", "draw.weight_scale=pool", "draw.floor=0.2",
        "replay.buffer_share=0.75", "draw.domains=alike",
        "pool.upper=7", "pool.bounds=successes", "pool.bounds_inclusive=true",
        "pool.keep=successes", "pool.rows_per_task=9", "pool.max_rows=11", "pool.max_bytes=12",
    )  # fmt: skip
    policy = replay_policy(make_config(Path("m"), *flags), PRINTS)
    rules = policy.rules
    assert (rules.fingerprints, rules.max_age, rules.max_uses, rules.cooldown) == (PRINTS, 7, 3, 2)
    assert (rules.min_ess, rules.max_ratio, rules.needs_logprobs) == (0.4, 5, True)
    assert policy.weighing == Weighing("stored", 0.7, 6, "gaussian", 0.4, 0.2, 0.2)
    assert policy.amounts == Amounts(
        mix_ratio=0.25, mix_rows=2, repair_rows=3, buffer_updates=4, buffer_rows=5,
        buffer_share=0.75, step_rows=8, max_per_task=6, max_domain_share=0.3, beta=0.9,
        beta_growth=0.01, weight_scale="pool", needs_advantage=True, domains_alike=True,
    )  # fmt: skip
    assert policy.keeping == Keeping(1, 7, as_rate=False, inclusive=True, successes_only=True)
    assert policy.budget == Budget(9, 11, 12)


def test_modes_that_are_off_take_nothing() -> None:
    amounts = replay_policy(make_config(Path("m"), "replay.modes=[repair]"), PRINTS).amounts
    assert (amounts.mix_ratio, amounts.repair_rows, amounts.buffer_updates) == (0, 1, 0)
    off = ("replay.modes=[mix]", "replay.participation=off")
    assert not replay_policy(make_config(Path("m"), *off), PRINTS).amounts.trains


def test_defaults_that_follow_other_settings() -> None:
    config = make_config(Path("m"), "train.minibatches=4", "replay.modes=[buffer]")
    assert replay_policy(config, PRINTS).amounts.buffer_rows == 2, "8 rows in 4 updates"
    assert retirement(config) == Retirement(False, 4, 20)
    config = make_config(Path("m"), "replay.retire=true", "replay.retire_rows=3")
    assert retirement(config) == Retirement(True, 3, 20)
    flags = ("replay.start_rows=5", "replay.start_success=0.35", "replay.start_progress=0.1")
    assert triggers(make_config(Path("m"), *flags)) == Triggers(5, 0.35, 0.1)
    recomputed = make_config(Path("m"), "correction.old_logprobs=recomputed")
    assert not replay_policy(recomputed, PRINTS).rules.needs_logprobs


def test_no_replayer_where_nothing_is_replayed(model: Path, tmp_path: Path) -> None:
    config = make_config(model)
    learner = learner_of(load_small(model), config, tmp_path)
    with planted(Plant()) as store:
        made = make_replayer(config, store, RUN, [], learner, PRINTS, Totals())
        assert made is None
        config = make_config(model, "replay.modes=[mix]")
        totals = Totals(replay_since=4, replay_solved=1)
        made = make_replayer(config, store, RUN, [TASKS[0].key], learner, PRINTS, totals)
        assert made is not None
        assert (made.start.since, made.start.solved) == (4, True)


def test_a_row_rests_by_the_steps_of_its_own_run(model: Path, tmp_path: Path) -> None:
    """In a shared store another run's step 500 must not keep a row out of ours for 500 steps."""
    config = make_config(model, "replay.modes=[mix]", "pool.cooldown=2", "pool.max_uses=none")
    learner = learner_of(load_small(model), config, tmp_path)
    other = RunId("later")
    ours, theirs = Plant(used=[8]), Plant(used=[500], user=other)
    old, early = Plant(used=[5], user=other), Plant(used=[3])
    with planted(ours, theirs, old, early) as store:
        ours_again = Draw(other, 1, 9, TrajectoryId("row-0"), GroupId("g"), 0, 1.0, "test")
        again = Use(other, 1, 9, TrajectoryId("row-0"))
        store.commit(StoreBatch(draws=[ours_again], uses=[again]))
        schedule = [task.key for task in TASKS]
        made = make_replayer(config, store, OWN, schedule, learner, PRINTS, Totals())
        assert made is not None
        made.begin(9, 20, 0)
        assert made.can_be_drawn.tolist() == [False, True, True, True]
        made.begin(11, 20, 0)
        assert made.can_be_drawn.tolist() == [True, True, True, True]


# -- ledger -------------------------------------------------------------------------------


def test_results_by_task() -> None:
    def row(group: str, reward: float) -> Trajectory:
        return make_row([1, 2], [False, True], f"{group}-{reward}", group, reward)

    found = results_of([row("b", 1.0), row("a", 0.0), row("b", 0.0), row("b", 0.9)])
    assert found == [Result(row("b", 1).task, 2, 3), Result(row("a", 0).task, 0, 1)]
    assert results_of([]) == []


def a_use(rows: tuple[Trajectory, ...]) -> RowUse:
    return RowUse(stored(rows[0], 4), -1.5, Ratios(1.1, 1.0, 2.0, 3.0, 0.9), 0.25, 0.5, 2)


def replayed(*uses: RowUse) -> Replayed:
    return Replayed(uses, uses[0].ratios, 0.0, 0.0, 0.0)


def test_uses(rows) -> None:
    (use,) = uses_of(RUN, 7, replayed(a_use(rows)))
    assert (use.run, use.step, use.slot, use.trajectory) == (RUN, 7, 4, "stored-4")
    assert (use.epochs, use.ess, use.clip_share, use.loss_share) == (2, 0.9, 0.25, 0.5)
    ratios = (use.ratio_mean, use.ratio_p50, use.ratio_p99, use.ratio_max)
    assert ratios == (1.1, 1.0, 2.0, 3.0)
    assert uses_of(RUN, 7, None) == []


def test_scores(rows) -> None:
    pick = stored(rows[5], 6)
    batch = Batch(
        (
            ScoredRow(rows[1], -0.5, True),
            ScoredRow(rows[2], 0.0, False),
            ScoredRow(rows[3], math.nan, True),  # lost its reward: nothing is known
            ScoredRow(pick.trajectory, 1.0, True, pick),  # drawn, but its update was refused
        )
    )
    found = scores_of(RUN, 7, batch, replayed(a_use(rows)))
    assert [(s.trajectory, s.advantage, s.priority, s.ess, s.ratio) for s in found] == [
        (rows[1].id, -0.5, 0.5, None, None),
        (rows[2].id, 0.0, 0.0, None, None),
        ("stored-4", -1.5, 1.5, 0.9, 2.0),
    ]


# -- trust --------------------------------------------------------------------------------


def test_drifted_rows_are_left_out(model: Path, tmp_path: Path, rows) -> None:
    learner = learner_of(load_small(model), make_config(model), tmp_path)
    picks = [stored(rows[0], 0, drift=0.0), stored(rows[1], 1, drift=3.0)]
    assert 0 not in drifted(learner, picks, 5.0)
    assert len(drifted(learner, picks, 5.0)) == len(picks) - 1
    assert drifted(learner, picks, None) == {}
    assert drifted(learner, [], 5.0) == {}
    now = learner.logprobs([pick.trajectory for pick in picks])
    for pick, logprobs in zip(picks, now, strict=True):
        assert pick.trajectory.logprobs is not None
        ratios = np.exp(logprobs.astype(float) - pick.trajectory.logprobs)
        p99 = float(np.quantile(ratios, 0.99))
        assert drifted(learner, [pick], p99 * 1.001) == {}
        assert list(drifted(learner, [pick], p99 * 0.999)) == [pick.slot]


def test_the_policy_is_asked_for_the_likeliest(model: Path, tmp_path: Path, rows) -> None:
    config = make_config(model, "replay.modes=[mix]", "draw.choice=likeliest")
    learner = learner_of(load_small(model), config, tmp_path)
    with planted(Plant()) as store:
        made = make_replayer(config, store, RUN, [TASKS[0].key], learner, PRINTS, Totals())
    assert made is not None
    found = made._chooser.likelihood(list(rows[:3]))
    recorded = [float(np.mean(row.logprobs)) for row in rows[:3]]
    assert found == pytest.approx(recorded, abs=1e-4), "the policy has not moved since"


def test_rows_that_were_left_out_keep_their_advantage_and_their_priority(rows) -> None:
    known = replace(stored(rows[0], 0), advantage=-0.5, priority=3.0)  # a critic's, say
    picks = (known, stored(rows[1], 1), replace(known, slot=2))
    log_ratios = {0: np.array([1.0, 1.0]), 1: np.array([1.0])}
    (found,) = left_out_scores(RUN, 7, Drawn(picks), log_ratios)
    assert (found.trajectory, found.advantage, found.priority) == ("stored-0", -0.5, 3.0)
    assert (found.ess, found.ratio) == pytest.approx((1.0, math.e))


def test_what_adaptation_looks_at(rows) -> None:
    picks = tuple(stored(row, slot) for slot, row in enumerate(rows[:2]))
    log_ratios = {0: np.array([0.0, 1.0]), 1: np.array([2.0])}
    trained = replayed(a_use(rows))
    assert measured_of(trained, Drawn(picks), log_ratios) == Measured(0.9, 0.0)
    assert measured_of(None, Drawn(), {}) is None
    assert measured_of(None, Drawn(picks), {}) is None, "drawn, but the update was refused"
    assert measured_of(None, Drawn(picks), {1: log_ratios[1]}) is None, "one could have trained"
    found = measured_of(None, Drawn(picks[:1], (picks[1:],)), log_ratios)
    ratios = np.exp([0.0, 1.0, 2.0])
    assert found is not None
    assert found.all_drifted
    assert found.ess == pytest.approx(ratios.sum() ** 2 / (3 * np.square(ratios).sum()))
    assert found.kl == pytest.approx(np.mean(ratios - 1 - np.log(ratios)))
