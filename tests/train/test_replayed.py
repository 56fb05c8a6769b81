"""What stored rows do in an update: their losses, their ratios, and what is told of them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recollect.ledger import Score
from recollect.models.loading import Policy
from recollect.train.batch import Batch, ScoredRow
from recollect.train.replayed import Ratios, Replayed
from recollect.train.report import UpdateReport
from recollect.trajectory import Trajectory
from recollect.types import Origin, RunId, TrajectoryId

from .learning import difference, learner_of, weights
from .replays import batch_of, stored
from .small import collect_rows, load_small, make_config

STILL = "train.learning_rate=1e-12"  # the policy stays where it is


@pytest.fixture(scope="module")
def rows(model: Path) -> tuple[Trajectory, ...]:
    return collect_rows(load_small(model), make_config(model))


def update(model: Path, tmp_path: Path, batch: Batch, *flags: str) -> UpdateReport:
    learner = learner_of(load_small(model), make_config(model, *flags), tmp_path)
    return learner.update(batch, 1)


def drifts(model: Path, tmp_path: Path, batch: Batch) -> dict[str, NDArray[np.float64]]:
    """Log ratios of every row, from the log-probs of the learner and the recorded ones."""
    learner = learner_of(load_small(model), make_config(model), tmp_path)
    rows = [row.trajectory for row in batch.rows]
    return {
        row.id: now.astype(float) - np.asarray(row.logprobs, dtype=float)
        for row, now in zip(rows, learner.logprobs(rows), strict=True)
    }


def found(report: UpdateReport) -> Replayed:
    assert report.replayed is not None
    return report.replayed


def check_ratios(told: Ratios, drift: NDArray[np.float64]) -> None:
    r = np.exp(drift)
    assert told.mean == pytest.approx(r.mean(), rel=1e-4)
    assert told.p50 == pytest.approx(np.median(r), rel=1e-4)
    assert told.p99 == pytest.approx(np.quantile(r, 0.99), rel=1e-4)
    assert told.max == pytest.approx(r.max(), rel=1e-4)
    assert told.ess == pytest.approx(r.sum() ** 2 / (r.size * (r**2).sum()), rel=1e-4)


# -- figures ------------------------------------------------------------------------------


def test_ratios_by_hand(model: Path, tmp_path: Path, rows) -> None:
    picks = [stored(rows[0], 3), stored(rows[5], 1, drift=-0.2)]
    batch = batch_of(rows[:4], picks)
    drift = drifts(model, tmp_path, batch)
    replayed = found(update(model, tmp_path, batch))
    assert [use.pick.slot for use in replayed.uses] == [1, 3]
    for use in replayed.uses:
        check_ratios(use.ratios, drift[use.pick.trajectory.id])
        assert use.updates == 1
    every = np.concatenate([drift["stored-3"], drift["stored-1"]])
    check_ratios(replayed.ratios, every)


def by_hand(
    batch: Batch, drift: dict[str, NDArray[np.float64]], by_row: bool = False
) -> tuple[float, float, dict[str, float], dict[str, float]]:
    """Loss, its replayed part, loss and clip shares by id: the default clips, mean over tokens.

    With `by_row` the mean over rows of the mean over their tokens.
    """
    total, off, absolute, clip = 0.0, 0.0, {}, {}
    tokens = sum(row.trajectory.sampled_count for row in batch.rows)
    for row in batch.rows:
        r, a, id_ = np.exp(drift[row.trajectory.id]), row.advantage, row.trajectory.id
        weight = 1.0 if row.pick is None else row.pick.weight
        low, high = 0.8, 1.2 if row.pick is None else 2.0
        inside = np.minimum(r, high) if a >= 0 else np.maximum(r, low)
        if row.pick is not None and a < 0:
            inside = np.minimum(inside, 3.0)
        losses = -weight * a * inside / (len(batch.rows) * r.size if by_row else tokens)
        total += losses.sum()
        off += losses.sum() if row.pick is not None else 0.0
        absolute[id_] = np.abs(losses).sum()
        clip[id_] = float((inside != r).mean())
    whole = sum(absolute.values())
    return total, off, {id_: value / whole for id_, value in absolute.items()}, clip


@pytest.mark.parametrize("by_row", [False, True])
def test_losses_and_shares_by_hand(model: Path, tmp_path: Path, rows, by_row: bool) -> None:
    picks = [
        stored(rows[0], 0, drift=0.8),
        stored(rows[5], 1, drift=-0.3, weight=0.25),
        stored(rows[6], 2),
    ]
    batch = batch_of(rows[:4], picks)
    loss, off, shares, clip = by_hand(batch, drifts(model, tmp_path, batch), by_row)
    mode = "seq-mean-token-mean" if by_row else "token-mean"
    report = update(model, tmp_path, batch, f"algo.aggregation={mode}")
    assert report.loss == pytest.approx(loss, rel=1e-4)
    assert found(report).loss == pytest.approx(off, rel=1e-4)
    for use in found(report).uses:
        id_ = use.pick.trajectory.id
        assert use.loss_share == pytest.approx(shares[id_], rel=1e-3)
        assert use.clip_share == pytest.approx(clip[id_])
        assert use.advantage == (1.5 if use.pick.slot % 2 == 0 else -0.5)
    tokens = {p.trajectory.id: p.trajectory.sampled_count for p in picks}
    mean = sum(clip[id_] * n for id_, n in tokens.items()) / sum(tokens.values())
    assert found(report).clip_share == pytest.approx(mean)
    # Nothing of stored rows is in the drift of fresh ones.
    assert report.drift is not None
    assert report.drift.ratio_max == pytest.approx(1, abs=1e-4)
    assert report.rows == 7
    assert report.optimizer_steps == 1


def test_rows_are_joined_by_id_not_by_place(model: Path, tmp_path: Path, rows) -> None:
    """Any order of the rows, in packs of any size: the same figures, the same weights."""
    picks = [stored(rows[n], n, drift=0.2 * n - 0.4) for n in range(4)]
    whole = batch_of(rows[4:], picks)
    expected, policies = None, []
    for seed, size in ((0, 200), (1, 130), (2, 1000)):
        mixed = list(whole.rows)
        random.Random(seed).shuffle(mixed)
        config = make_config(model, f"train.pack_tokens={size}")
        policies.append(load_small(model))
        report = learner_of(policies[-1], config, tmp_path).update(Batch(tuple(mixed)), 1)
        told = {
            use.pick.trajectory.id: pytest.approx(
                [use.ratios.mean, use.ratios.p99, use.ratios.ess, use.loss_share, use.advantage],
                rel=1e-4,
            )
            for use in found(report).uses
        }
        expected = expected or told
        assert {id_: values.expected for id_, values in told.items()} == expected
        assert report.loss == pytest.approx(update(model, tmp_path, whole).loss, rel=1e-4)
    for policy in policies[1:]:
        assert difference(policies[0], policy) < 1e-4


def test_every_applied_step_is_counted(model: Path, tmp_path: Path, rows) -> None:
    picks = [stored(rows[n], n) for n in range(2)]
    batch = batch_of(rows[2:], picks)
    extra = tuple(ScoredRow(p.trajectory, 0.5, True, p) for p in (stored(rows[3], 9),))
    flags = ("train.epochs=2", "train.minibatches=2", STILL)
    report = update(model, tmp_path, replace(batch, extra=(extra,)), *flags)
    assert report.optimizer_steps == 5
    assert {use.pick.slot: use.updates for use in found(report).uses} == {0: 2, 1: 2, 9: 1}
    assert report.rows == 9
    # The extra update holds nothing else: all of its loss is that row's.
    (alone,) = [use for use in found(report).uses if use.pick.slot == 9]
    assert alone.loss_share == pytest.approx(1.0)


def test_an_update_of_stored_rows_alone(model: Path, tmp_path: Path, rows) -> None:
    picks = [stored(rows[0], 0), stored(rows[1], 1)]
    extra = tuple(ScoredRow(p.trajectory, 1.0, True, p) for p in picks)
    report = update(model, tmp_path, Batch((), (extra,)))
    assert report.drift is None
    assert report.loss == pytest.approx(found(report).loss)
    assert report.optimizer_steps == 1


def test_refused_steps_are_no_uses(model: Path, tmp_path: Path, rows) -> None:
    pick = stored(rows[0], 0)
    bad = ScoredRow(pick.trajectory, float("nan"), True, pick)
    report = update(model, tmp_path, Batch((bad,)))
    assert (report.skipped, report.replayed) == (1, None)


def test_without_stored_rows_nothing_is_told(model: Path, tmp_path: Path, rows) -> None:
    assert update(model, tmp_path, batch_of(rows, [])).replayed is None


# -- corrections --------------------------------------------------------------------------


def test_recorded_and_recomputed(model: Path, tmp_path: Path, rows) -> None:
    pick = stored(rows[0], 0, drift=0.8)
    batch = Batch((ScoredRow(pick.trajectory, 1.0, True, pick),))
    recorded = found(update(model, tmp_path, batch))
    assert recorded.ratios.mean > 1.5
    recomputed = found(update(model, tmp_path, batch, "correction.old_logprobs=recomputed"))
    # The loss starts at ratio 1; what is reported stays the drift from the policy that sampled.
    assert recomputed.ratios.mean == pytest.approx(recorded.ratios.mean, rel=1e-4)
    assert recomputed.loss == pytest.approx(-1, abs=1e-4)


def test_recomputed_is_the_policy_at_the_start_of_the_step(
    model: Path, tmp_path: Path, rows
) -> None:
    """Not of each minibatch: once fresh rows were trained on, its loss is not that of ratio 1."""
    pick = stored(rows[0], 0)
    extra = ((ScoredRow(pick.trajectory, 1.0, True, pick),),)
    flags = ("correction.old_logprobs=recomputed", "train.learning_rate=0.05")
    alone = found(update(model, tmp_path, Batch((), extra), *flags))
    assert alone.loss == pytest.approx(-1, abs=1e-4)
    batch = Batch(tuple(ScoredRow(row, 1.0, True) for row in rows), extra)
    after = found(update(model, tmp_path, batch, *flags))
    steps = 2  # the loss is a mean over the step on fresh rows and this one
    assert abs(steps * after.loss + 1) > 1e-3


def test_rows_without_log_probs_can_be_recomputed_only(model: Path, tmp_path: Path, rows) -> None:
    pick = stored(rows[0], 0)
    none = {"logprobs": None, "entropies": None, "sampling": None, "policy_version": None}
    row = replace(pick.trajectory, origin=Origin.DEMO, **none)
    demo = replace(pick, trajectory=row)
    batch = Batch((ScoredRow(demo.trajectory, 1.0, True, demo),))
    with pytest.raises(ValueError, match="without recorded log-probs"):
        update(model, tmp_path, batch)
    report = update(model, tmp_path, batch, "correction.old_logprobs=recomputed")
    assert found(report).ratios.mean == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", ["clip", "shape", "truncate", "mask", "weight"])
def test_correction_weight_scales_the_replayed_part(
    model: Path, tmp_path: Path, rows, kind: str
) -> None:
    picks = [stored(rows[0], 0, drift=0.1)]
    batch = batch_of(rows[:4], picks)
    flag = f"correction.kind={kind}"
    one = update(model, tmp_path, batch, flag)
    two = update(model, tmp_path, batch, flag, "correction.weight=2")
    assert found(two).loss == pytest.approx(2 * found(one).loss, rel=1e-4)
    fresh = one.loss - found(one).loss
    assert two.loss - found(two).loss == pytest.approx(fresh, rel=1e-4, abs=1e-6)


def test_a_weight_of_zero_leaves_the_fresh_gradient(
    model: Path, policy: Policy, tmp_path: Path, rows
) -> None:
    """By priority or by setting; the mean is still over all tokens."""
    before, other = weights(policy), load_small(model)
    config = make_config(model, "train.max_grad_norm=1e9", "correction.weight=0")
    learner_of(policy, config, tmp_path).update(batch_of(rows[:4], [stored(rows[5], 0)]), 1)
    config = make_config(model, "train.max_grad_norm=1e9")
    silent = stored(rows[5], 0, weight=0.0)
    learner_of(other, config, tmp_path).update(batch_of(rows[:4], [silent]), 1)
    assert difference(policy, other) < 1e-7
    assert any((p - before[name]).abs().max() > 0 for name, p in policy.trainable())


def test_levels_reach_the_learner(model: Path, tmp_path: Path, rows) -> None:
    pick = stored(rows[0], 0, drift=0.1)
    batch = Batch((ScoredRow(pick.trajectory, 1.0, True, pick),))
    drift = drifts(model, tmp_path, batch)["stored-0"]
    for level, ratio in (("sequence", np.exp(drift.sum())), ("geometric", np.exp(drift.mean()))):
        flags = ("correction.kind=weight", f"correction.level={level}")
        assert found(update(model, tmp_path, batch, *flags)).loss == pytest.approx(-ratio, rel=1e-3)


# -- effective sample size ----------------------------------------------------------------


@given(
    st.lists(
        st.one_of(st.floats(-3, 3), st.floats(-1e-7, 1e-7), st.floats(-1e4, 1e4)),
        min_size=1,
        max_size=50,
    )
)
def test_ratios_of_anything_can_be_recorded(drift: list[float]) -> None:
    told = Ratios.of(np.array(drift))
    assert 0 < told.ess <= 1
    assert told.p50 <= told.p99 <= told.max
    Score(RunId("r"), 1, TrajectoryId("t"), 0.0, 0.0, told.ess, told.p99)


def test_the_variance_wall() -> None:
    """With log-ratios of deviation s the share of the effective sample size is exp(-s^2)."""
    drift = np.random.default_rng(0).normal(0.0, 0.02 * np.sqrt(1000), 40_000)
    assert Ratios.of(drift).ess == pytest.approx(np.exp(-0.4), abs=0.02)


def test_equal_ratios_are_as_good_as_fresh_ones() -> None:
    for size in range(1, 60):
        told = Ratios.of(np.full(size, 0.1))
        assert told.ess == pytest.approx(1)
        assert told.ess <= 1, "a store refuses more"
