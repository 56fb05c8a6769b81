"""Numbers that are not numbers never reach the weights (F11, F12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.errors import TrainingDiverged
from recollect.models.loading import Policy
from recollect.store.unchecked import unchecked
from recollect.train.batch import Batch, ScoredRow
from recollect.train.guards import Guard, read_bad_batch
from recollect.train.learner import Learner
from recollect.train.scoring import score
from recollect.trajectory import Trajectory

from .small import collect_rows, load_small, make_config

BAD = [math.nan, math.inf, -math.inf]


@pytest.fixture(scope="module")
def batch(model: Path) -> Batch:
    rows = collect_rows(load_small(model), make_config(model))
    return score(rows, "grpo", [0.0] * len(rows))


def bits(learner: Learner) -> list[bytes]:
    """Weights and optimiser state, to compare bit for bit, NaN included."""
    parameters = [p for _, p in learner.policy.trainable()]
    state = [v for s in learner._optimizer.state.values() for v in s.values()]
    return [t.detach().numpy().tobytes() for t in (*parameters, *state)]


def ready(model: Path, tmp_path: Path, batch: Batch, *flags: str) -> Learner:
    """A learner that has made a good step already."""
    config = make_config(model, *flags)
    guard = Guard(tmp_path / "bad", config.train.max_bad_steps)
    learner = Learner(load_small(model), config, guard)
    learner.update(batch, 1)
    return learner


def poison_advantage(learner: Learner, batch: Batch, row: int, value: float) -> Batch:
    rows = list(batch.training)
    rows[row] = replace(rows[row], advantage=value)
    return Batch(tuple(rows))


def poison_logprobs(learner: Learner, batch: Batch, row: int, value: float) -> Batch:
    """As if the record had been let through: its own checks refuse such a row."""
    rows = list(batch.training)
    old = rows[row].trajectory
    assert old.logprobs is not None
    changed = old.logprobs.copy()
    changed[-1] = value
    fields = {name: getattr(old, name) for name in old.__slots__}
    twin = unchecked(Trajectory)(**fields | {"logprobs": changed})
    rows[row] = ScoredRow(twin, rows[row].advantage, True)
    return Batch(tuple(rows))


def poison_weight(learner: Learner, batch: Batch, row: int, value: float) -> Batch:
    parameters = learner.policy.trainable()
    with torch.no_grad():
        parameters[row % len(parameters)][1].fill_(value)
    return batch


def poison_gradient(learner: Learner, batch: Batch, row: int, value: float) -> Batch:
    parameters = learner.policy.trainable()
    parameters[row % len(parameters)][1].register_hook(lambda g: torch.full_like(g, value))
    return batch


Poison = Callable[[Learner, Batch, int, float], Batch]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    poison=st.sampled_from([poison_advantage, poison_logprobs, poison_weight, poison_gradient]),
    row=st.integers(0, 3),
    value=st.sampled_from(BAD),
    loss=st.sampled_from(["ppo_clip", "cispo", "topr", "importance_weighted"]),
)
def test_nothing_that_is_not_finite_reaches_the_weights(
    model: Path, tmp_path: Path, batch: Batch, poison: Poison, row: int, value: float, loss: str
) -> None:
    learner = ready(model, tmp_path, batch, f"algo.loss={loss}", "train.max_bad_steps=99")
    poisoned = poison(learner, batch, row, value)
    before = bits(learner)
    version = learner.version
    report = learner.update(poisoned, 2)
    if report.skipped:
        assert bits(learner) == before
        assert learner.version == version
        assert math.isnan(report.loss)
        assert report.rows == report.tokens == 0
        assert report.drift is None
    else:  # an infinite ratio is bounded before it is formed
        assert poison is poison_logprobs
        assert math.isinf(value)
        assert math.isfinite(report.loss)
        assert all(bool(torch.isfinite(p).all()) for _, p in learner.policy.trainable())


@pytest.mark.parametrize(
    "poison", [poison_advantage, poison_logprobs, poison_weight, poison_gradient]
)
def test_nan_is_always_refused_and_saved(
    model: Path, tmp_path: Path, batch: Batch, poison: Poison
) -> None:
    learner = ready(model, tmp_path, batch)
    poisoned = poison(learner, batch, 0, math.nan)
    before = bits(learner)
    assert learner.update(poisoned, 2).skipped == 1
    assert bits(learner) == before
    saved = tmp_path / "bad" / "step_000002_1.frames"
    if poison is poison_logprobs:
        assert saved.is_file()  # the bytes are there; reading them finds what is wrong with them
    else:
        read = read_bad_batch(saved)
        assert [row.trajectory.id for row in read] == [r.trajectory.id for r in poisoned.training]


def test_three_in_a_row_stop_the_run(model: Path, tmp_path: Path, batch: Batch) -> None:
    learner = ready(model, tmp_path, batch)
    bad = poison_advantage(learner, batch, 0, math.nan)
    before = bits(learner)
    assert learner.update(bad, 2).skipped == 1
    assert learner.update(bad, 3).skipped == 1
    with pytest.raises(TrainingDiverged):
        learner.update(bad, 4)
    assert bits(learner) == before


def test_one_bad_minibatch_does_not_cost_the_others(
    model: Path, tmp_path: Path, batch: Batch
) -> None:
    learner = ready(model, tmp_path, batch, "train.minibatches=4")
    version = learner.version
    rows = len(batch.training)
    bad = poison_advantage(learner, batch, rows - 1, math.inf)
    report = learner.update(bad, 2)
    assert (report.skipped, report.optimizer_steps) == (1, 3)
    assert learner.version == version + 3
    assert math.isfinite(report.loss)
    assert report.rows < rows


def test_after_a_refused_update_training_goes_on_as_if_nothing_had_been(
    model: Path, tmp_path: Path, batch: Batch
) -> None:
    one, two = ready(model, tmp_path, batch), ready(model, tmp_path, batch)
    two.update(poison_advantage(two, batch, 0, math.nan), 2)
    one.update(batch, 3)
    two.update(batch, 3)
    assert bits(one) == bits(two)


def test_a_nan_in_the_sampler_never_becomes_a_row(model: Path, policy: Policy) -> None:
    with torch.no_grad():
        policy.trainable()[0][1].fill_(math.nan)
    assert collect_rows(policy, make_config(model)) == ()
