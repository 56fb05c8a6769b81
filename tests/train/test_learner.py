from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recollect.models.loading import Policy
from recollect.train.batch import Batch, ScoredRow
from recollect.train.checkpoint import newest_checkpoint, save_checkpoint
from recollect.train.parts import policy_from
from recollect.train.scoring import ESTIMATORS, score
from recollect.trajectory import Trajectory

from .learning import adapted, changed, difference, grpo, learner_of, weights
from .small import collect_rows, load_small, make_config


@pytest.fixture(scope="module")
def rows(model: Path) -> tuple[Trajectory, ...]:
    """Two groups of four rows that the small model sampled."""
    found = collect_rows(load_small(model), make_config(model))
    assert len({row.reward.value for row in found[:4]}) > 1
    return found


# -- the loss -----------------------------------------------------------------------------


def test_the_first_loss_by_hand(model: Path, policy: Policy, tmp_path: Path, rows) -> None:
    """All ratios are 1, so the loss is minus the mean advantage of the trained tokens."""
    batch = grpo(rows)
    report = learner_of(policy, make_config(model), tmp_path).update(batch, 1)
    tokens = [row.trajectory.sampled_count for row in batch.training]
    pulls = [-row.advantage * n for row, n in zip(batch.training, tokens, strict=True)]
    assert report.loss == pytest.approx(sum(pulls) / sum(tokens), abs=1e-5)
    assert report.tokens == sum(tokens)
    assert report.rows == len(batch.training)
    assert report.drift is not None
    assert report.drift.logprob_difference < 1e-5
    assert report.drift.ratio_max == pytest.approx(1, abs=1e-4)
    assert report.drift.kl == pytest.approx(0, abs=1e-8)


LOSSES = ["ppo_clip", "cispo", "topr", "importance_weighted", "reinforce", "gspo"]
AGGREGATIONS = [
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_every_loss_and_aggregation_trains(
    model: Path, policy: Policy, tmp_path: Path, rows, loss: str, aggregation: str
) -> None:
    flags = [f"algo.loss={loss}", f"algo.aggregation={aggregation}", "train.epochs=2"]
    if loss == "gspo":
        flags += ["algo.clip_low=3e-4", "algo.clip_high=4e-4"]
    before = weights(policy)
    report = learner_of(policy, make_config(model, *flags), tmp_path).update(grpo(rows), 1)
    assert changed(policy, before)
    assert report.optimizer_steps == 2
    assert report.skipped == 0


@pytest.mark.parametrize("advantage", ESTIMATORS)
def test_every_advantage_trains(
    model: Path, policy: Policy, tmp_path: Path, rows, advantage: str
) -> None:
    config = make_config(model, f"algo.advantage={advantage}")
    before = weights(policy)
    batch = score(rows, config.algo.advantage, [0.0] * len(rows))
    learner_of(policy, config, tmp_path).update(batch, 1)
    assert changed(policy, before)


def test_losses_differ_once_the_policy_has_moved(model: Path, tmp_path: Path, rows) -> None:
    found = []
    for loss in ("ppo_clip", "importance_weighted", "reinforce"):
        policy = load_small(model)
        config = make_config(
            model, f"algo.loss={loss}", "train.epochs=4", "train.learning_rate=0.05"
        )
        learner_of(policy, config, tmp_path).update(grpo(rows), 1)
        found.append(policy)
    assert difference(found[0], found[1]) > 1e-4
    assert difference(found[1], found[2]) > 1e-4


def test_clipping_is_seen(model: Path, policy: Policy, tmp_path: Path, rows) -> None:
    config = make_config(model, "train.epochs=5", "train.learning_rate=0.05")
    report = learner_of(policy, config, tmp_path).update(grpo(rows), 1)
    assert report.drift is not None
    assert report.drift.clip_share > 0
    assert report.drift.ratio_max > 1.2
    assert report.drift.kl > 1e-4
    assert report.drift.logprob_difference < 1e-5  # before the first step, not after it


# -- how the batch is cut -----------------------------------------------------------------


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_many_packs_add_up_to_one(model: Path, tmp_path: Path, rows, aggregation: str) -> None:
    policies, losses = [], []
    for limit, shared in ((100_000, True), (100_000, False), (120, True), (120, False)):
        policy = load_small(model)
        config = make_config(
            model,
            f"algo.aggregation={aggregation}",
            f"train.pack_tokens={limit}",
            f"train.shared_prompts={str(shared).lower()}",
        )
        losses.append(learner_of(policy, config, tmp_path).update(grpo(rows), 1).loss)
        policies.append(policy)
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-6)
    for other in policies[1:]:
        assert difference(policies[0], other) < 2e-5


def test_epochs_and_minibatches_count_as_optimiser_steps(
    model: Path, policy: Policy, tmp_path: Path, rows
) -> None:
    config = make_config(model, "train.epochs=3", "train.minibatches=4")
    learner = learner_of(policy, config, tmp_path)
    told: list[tuple[int, int]] = []
    report = learner.update(grpo(rows), 1, lambda done, total: told.append((done, total)))
    assert report.optimizer_steps == learner.version == 12
    assert told == [(n, 12) for n in range(1, 13)]
    # However often they train, rows and tokens are counted once.
    training = grpo(rows).training
    assert report.rows == len(training)
    assert report.tokens == sum(row.trajectory.sampled_count for row in training)


def test_gradient_checkpointing_changes_nothing(model: Path, tmp_path: Path, rows) -> None:
    policies = []
    for wanted in ("false", "true"):
        config = make_config(model, f"model.gradient_checkpointing={wanted}", "train.epochs=2")
        policy = policy_from(config, None)
        learner_of(policy, config, tmp_path).update(grpo(rows), 1)
        policies.append(policy)
    assert difference(*policies) < 1e-6


# -- what does not train ------------------------------------------------------------------


def test_rows_without_signal_are_as_if_they_were_not_there(
    model: Path, tmp_path: Path, rows
) -> None:
    batch = grpo(rows)
    dead = tuple(replace(row, advantage=0.0, signal=False) for row in batch.rows[4:])
    one, two = load_small(model), load_small(model)
    config = make_config(model)
    learner_of(one, config, tmp_path).update(Batch(batch.rows[:4] + dead), 1)
    learner_of(two, config, tmp_path).update(Batch(batch.rows[:4]), 1)
    assert difference(one, two) == 0


def test_a_batch_without_signal_changes_nothing_at_all(
    model: Path, policy: Policy, tmp_path: Path, rows
) -> None:
    config = make_config(model, "train.weight_decay=0.5", "algo.kl_coef=0.1")
    learner = learner_of(policy, config, tmp_path)
    learner.update(grpo(rows), 1)  # so that the optimiser has momentum to go on with
    before = weights(policy)
    moments = {k: v.clone() for s in learner._optimizer.state.values() for k, v in s.items()}
    dead = Batch(tuple(ScoredRow(row, 0.0, False) for row in rows))
    for batch in (dead, Batch(())):
        report = learner.update(batch, 2)
        assert not changed(policy, before)
        assert learner.version == 1
        assert (report.loss, report.grad_norm, report.rows, report.tokens) == (0, 0, 0, 0)
        assert (report.optimizer_steps, report.skipped, report.drift) == (0, 0, None)
    for state in learner._optimizer.state.values():
        assert int(state["step"]) == 1
    after = {k: v for s in learner._optimizer.state.values() for k, v in s.items()}
    assert all(torch.equal(after[key], moments[key]) for key in moments)


def test_the_learning_rate_is_applied(model: Path, policy: Policy, tmp_path: Path, rows) -> None:
    still = learner_of(policy, make_config(model, "train.learning_rate=0"), tmp_path)
    before = weights(policy)
    still.update(grpo(rows), 1)
    assert not changed(policy, before)
    config = make_config(model, "run.steps=10", "train.warmup_steps=4", "train.learning_rate=1e-3")
    learner = learner_of(policy, config, tmp_path)
    assert learner.update(grpo(rows), 1).learning_rate == pytest.approx(2.5e-4)
    # AdamW's first step moves every weight that has a gradient by the rate.
    moved = max(float((p - before[name]).detach().abs().max()) for name, p in policy.trainable())
    assert moved == pytest.approx(2.5e-4, rel=1e-2)


def test_long_gradients_are_cut(model: Path, policy: Policy, tmp_path: Path, rows) -> None:
    config = make_config(model, "train.max_grad_norm=1e-3")
    learner = learner_of(policy, config, tmp_path)
    report = learner.update(grpo(rows), 1)
    assert report.grad_norm > 1e-2  # reported as it was
    means = [state["exp_avg"] for state in learner._optimizer.state.values()]
    applied = torch.cat([mean.flatten() for mean in means]).norm() / (1 - config.train.beta1)
    assert float(applied) == pytest.approx(1e-3, rel=1e-3)


# -- the same again -----------------------------------------------------------------------


@pytest.mark.parametrize("lora", [False, True])
def test_the_same_batches_give_the_same_bits(model: Path, tmp_path: Path, rows, lora: bool) -> None:
    config = make_config(model, "train.epochs=2", "train.minibatches=2")
    found = []
    for _ in range(2):
        policy = adapted(model, dropout=0.3) if lora else load_small(model)
        learner_of(policy, config, tmp_path).update(grpo(rows), 1)
        found.append(policy)
        torch.rand(7)  # whatever else draws from the global generator is no matter
    assert difference(*found) == 0


@pytest.mark.parametrize("rank", [0, 2])
def test_saved_and_restored_it_goes_on_bit_for_bit(
    model: Path, tmp_path: Path, rows, rank: int
) -> None:
    config = make_config(model, f"model.lora.rank={rank}")
    straight = policy_from(config, None)
    learner = learner_of(straight, config, tmp_path)
    learner.update(grpo(rows), 1)
    saved = save_checkpoint(tmp_path / "checkpoints", 1, {}, learner.save)
    resumed = policy_from(config, saved)
    again = learner_of(resumed, config, tmp_path)
    again.restore(saved.folder, learner.version)
    assert again.version == 1
    assert difference(straight, resumed) == 0
    for step in (2, 3):
        first, second = learner.update(grpo(rows), step), again.update(grpo(rows), step)
        assert first == second
    assert difference(straight, resumed) == 0


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_a_full_disk_is_an_error_of_the_disk(model: Path, policy: Policy, tmp_path: Path) -> None:
    import resource

    learner = learner_of(policy, make_config(model), tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            save_checkpoint(tmp_path / "checkpoints", 1, {}, learner.save)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert newest_checkpoint(tmp_path / "checkpoints") is None
    save_checkpoint(tmp_path / "checkpoints", 1, {}, learner.save)
    assert newest_checkpoint(tmp_path / "checkpoints") is not None
