"""The registered loss against the learner of one process: the same rows, value and gradient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from recollect.integrations.verl.loss import DISTILLED, STRIPPED, make_policy_loss
from recollect.integrations.verl.training_row import padding_row, training_row
from recollect.train.batch import ScoredRow
from recollect.train.guards import Guard
from recollect.train.learner import Learner
from recollect.train.preparing import step_denominator
from recollect.train.ranks import Work
from train.replays import batch_of, stored
from train.small import collect_rows, load_small, make_config

from .machines import LocalMachines

WIDE = "train.max_grad_norm=1e9"
LOSSES = {
    "ppo_clip": (),
    "clip higher, dual": ("algo.clip_high=0.28", "algo.dual_clip=3"),
    "gspo": ("algo.loss=gspo", "algo.clip_low=3e-4", "algo.clip_high=4e-4"),
    "cispo": ("algo.loss=cispo",),
    "topr": ("algo.loss=topr",),
    "importance": ("algo.loss=importance_weighted",),
    "reinforce": ("algo.loss=reinforce",),
    "shape": ("correction.kind=shape", "correction.weight=2"),
    "truncate": ("correction.kind=truncate", "correction.cap=1.1"),
    "mask": ("correction.kind=mask", "correction.level=sequence"),
    "weight": ("correction.kind=weight", "correction.level=geometric"),
    "by row": ("algo.aggregation=seq-mean-token-mean",),
    "by length": ("algo.aggregation=seq-mean-token-sum",),
    "over a constant": ("algo.aggregation=seq-mean-token-sum-norm", "algo.aggregation_norm=30"),
    "warm": ("rollout.temperature=1.7",),
}


@pytest.fixture(scope="module")
def rows(model: Path) -> tuple[ScoredRow, ...]:
    """Fresh rows that have drifted a little, and stored ones that have drifted more."""
    config = make_config(model)
    fresh = collect_rows(load_small(model), config)
    moved = [replace(r, logprobs=(r.logprobs - 0.1).clip(max=0)) for r in fresh[:4]]  # type: ignore[operator]
    picks = [stored(row, n, weight=0.5 + 0.2 * n) for n, row in enumerate(fresh[4:])]
    return batch_of(moved, picks).rows


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_are_those_of_one_process(
    name: str, workers: int, model: Path, rows: tuple[ScoredRow, ...], tmp_path: Path
) -> None:
    config = make_config(model, WIDE, *LOSSES[name])
    learner = Learner(load_small(model), config, Guard(tmp_path, 3))
    denominator = step_denominator(rows, config.algo.aggregation)
    figures = learner.gradients(Work(rows, {}, denominator))
    machines = LocalMachines(config, workers)
    applied = machines.train([training_row(row, None) for row in rows], 0.0)
    assert applied.loss == pytest.approx(figures.loss, rel=1e-5, abs=1e-6)
    theirs = dict(machines.policy.trainable())
    moved = 0.0
    for key, parameter in learner.parameters:
        assert parameter.grad is not None
        assert theirs[key].grad is not None
        torch.testing.assert_close(theirs[key].grad, parameter.grad, rtol=2e-4, atol=2e-6)
        moved += float(parameter.grad.abs().sum())
    assert moved > 0


def test_stripped_and_distilled_rows_are_told_apart(
    model: Path, rows: tuple[ScoredRow, ...], tmp_path: Path
) -> None:
    config = make_config(model, WIDE, "notes.train=strip", "notes.rollout=all", "notes.cap=1.5")
    bare = tuple(replace(row, stripped=True) if n < 3 else row for n, row in enumerate(rows))
    taught = frozenset({str(bare[1].trajectory.id)})
    learner = Learner(load_small(model), config, Guard(tmp_path, 3))
    denominator = step_denominator(bare, config.algo.aggregation)
    figures = learner.gradients(Work(bare, {}, denominator, distilled=taught))
    cut = [training_row(row, None, row.trajectory.id in taught) for row in bare]
    assert [float(row.codes.min()) for row in cut[:3]] == [STRIPPED, DISTILLED, STRIPPED]
    machines = LocalMachines(config, 2)
    assert machines.train(cut, 0.0).loss == pytest.approx(figures.loss, rel=1e-5, abs=1e-6)
    theirs = dict(machines.policy.trainable())
    for key, parameter in learner.parameters:
        torch.testing.assert_close(theirs[key].grad, parameter.grad, rtol=2e-4, atol=2e-6)


def test_metrics_of_fresh_and_replayed_tokens_stand_apart(
    model: Path, rows: tuple[ScoredRow, ...]
) -> None:
    machines = LocalMachines(make_config(model, WIDE))
    machines.train([training_row(row, None) for row in rows], 0.0)
    fresh = [told["actor/on_policy/ratio_mean"] for told in machines.metrics]
    off = [told["actor/off_policy/ratio_mean"] for told in machines.metrics]
    assert fresh[0] == pytest.approx(1.105, abs=0.02), "moved by 0.1"
    assert off[0] == 1.0, "none in the first microbatch"
    assert off[-1] > 1.1
    assert len({tuple(told) for told in machines.metrics}) == 1, "the same names everywhere"


def test_before_the_first_update_no_ratio_differs_from_one(model: Path) -> None:
    config = make_config(model)
    machines = LocalMachines(config)
    fresh = collect_rows(machines.policy, config)
    cut = [training_row(ScoredRow(row, 1.0 - n % 3, True), None) for n, row in enumerate(fresh)]
    machines.train(cut, 0.01)
    assert all(told["actor/on_policy/ratio_std"] < 1e-5 for told in machines.metrics)
    machines.metrics.clear()
    machines.train(cut, 0.01)
    assert max(told["actor/on_policy/ratio_std"] for told in machines.metrics) > 1e-3


def test_rows_that_nobody_published_are_refused(model: Path) -> None:
    loss = make_policy_loss(lambda: make_config(model))
    some = torch.zeros(1, 2)
    info = SimpleNamespace(global_batch_info={"dp_size": 1})
    with pytest.raises(ValueError, match="not published by recollect"):
        loss(some, some, some, some.bool(), "token-mean", info, None)


def test_a_row_is_cut_where_it_was_first_and_last_sampled(rows: tuple[ScoredRow, ...]) -> None:
    row = training_row(rows[0], None)
    trajectory = rows[0].trajectory
    joined = [*row.prompt.tolist(), *row.response.tolist()]
    assert joined == trajectory.tokens[: len(joined)].tolist()
    assert not trajectory.sampled[len(joined) :].any()
    assert row.mask[0] == row.mask[-1] == 1
    assert row.mask.sum() == trajectory.sampled_count
    assert row.behaviour[row.mask > 0].tolist() == trajectory.logprobs.tolist()  # type: ignore[union-attr]
    assert not row.behaviour[row.mask == 0].any()
    assert row.group == trajectory.group
    empty = padding_row(3)
    assert empty.mask.sum() == 0
    assert empty.length == 2
