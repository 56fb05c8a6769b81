"""The KL divergence, in the loss and in the reward, and the bonus on entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from recollect.models.loading import Policy
from recollect.train.folder import RunFolder
from recollect.train.guards import Guard
from recollect.train.learner import Learner
from recollect.train.packing import pack
from recollect.train.parts import make_reference, policy_from
from recollect.train.scorer import Reference, entropies, log_distributions, target_logprobs
from recollect.train.session import open_session
from recollect.trajectory import Trajectory

from .learning import adapted, difference, grpo, learner_of, without_reward
from .replays import batch_of, stored
from .small import collect_rows, load_small, make_config, run_to_end


@pytest.fixture(scope="module")
def rows(model: Path) -> tuple[Trajectory, ...]:
    """Two groups of four rows that the small model sampled."""
    found = collect_rows(load_small(model), make_config(model))
    assert len({row.reward.value for row in found[:4]}) > 1
    return found


def shake(policy: Policy, by: float = 0.05) -> None:
    """Move the policy away from where it was, always in the same way."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))


def total_kl(policy: Policy, reference: Reference, rows: Sequence[Trajectory]) -> float:
    found = 0.0
    for each in pack(rows, 10_000):
        drift = target_logprobs(policy.model, each, 1.0) - reference.logprobs(each, 1.0)
        found += float((torch.expm1(-drift) + drift).sum())
    return found


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_kl_in_the_loss_pulls_back(
    model: Path, policy: Policy, tmp_path: Path, rows, estimator: str
) -> None:
    flags = ["algo.kl_coef=1.0", f"algo.kl_estimator={estimator}", "train.learning_rate=0.003"]
    config = make_config(model, *flags)
    reference = Reference(policy)
    shake(policy)
    learner = Learner(policy, config, Guard(tmp_path, 3), reference)
    before = total_kl(policy, reference, rows)
    first = learner.update(without_reward(rows), 1)
    tokens = sum(row.sampled_count for row in rows)
    assert first.loss == pytest.approx(before / tokens, rel=1e-4)
    for step in range(2, 12):
        learner.update(without_reward(rows), step)
    assert total_kl(policy, reference, rows) < 0.8 * before, before


def test_a_policy_at_its_reference_feels_no_kl(
    model: Path, policy: Policy, tmp_path: Path, rows
) -> None:
    learner = learner_of(policy, make_config(model, "algo.kl_coef=1.0"), tmp_path)
    report = learner.update(without_reward(rows), 1)
    assert report.loss == pytest.approx(0, abs=1e-9)
    assert report.grad_norm == pytest.approx(0, abs=1e-6)


def test_without_its_adapter_equals_a_frozen_copy(model: Path, tmp_path: Path, rows) -> None:
    config = make_config(model, "algo.kl_coef=0.5", "train.epochs=3")
    found = []
    references: list[Callable[[Policy], Reference]] = [
        Reference,
        lambda policy: Reference(load_small(model)),
    ]
    for make in references:
        policy = adapted(model)
        shake(policy)
        Learner(policy, config, Guard(tmp_path, 3), make(policy)).update(grpo(rows), 1)
        found.append(policy)
    assert difference(*found) == 0


def test_kl_in_the_reward_costs_nothing_at_the_start(
    model: Path, policy: Policy, tmp_path: Path, rows
) -> None:
    """Exactly nothing: rounding would become an advantage in groups that have no signal."""
    config = make_config(model, "algo.kl_coef=1.0", "algo.kl_in=reward", "algo.kl_estimator=k1")
    assert learner_of(policy, config, tmp_path).penalties(rows) == [0.0] * len(rows)
    lora = adapted(model)
    assert learner_of(lora, config, tmp_path).penalties(rows) == [0.0] * len(rows)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_in_the_reward_is_the_sum_over_a_row(
    model: Path, policy: Policy, tmp_path: Path, rows, estimator: str
) -> None:
    config = make_config(
        model, "algo.kl_coef=0.5", "algo.kl_in=reward", f"algo.kl_estimator={estimator}"
    )
    learner = learner_of(policy, config, tmp_path)
    reference = Reference(policy)
    shake(policy)
    found = learner.penalties(rows)
    for row, cost in zip(rows, found, strict=True):
        (each,) = pack([row], 1000)
        drift = target_logprobs(policy.model, each, 1.0) - reference.logprobs(each, 1.0)
        by_hand = {"k1": drift, "k2": drift**2 / 2, "k3": torch.expm1(-drift) + drift}[estimator]
        assert cost == pytest.approx(0.5 * float(by_hand.sum()), rel=1e-3, abs=1e-5)
    # It is in the reward, so it is not in the loss as well.
    assert learner.update(without_reward(rows), 1).loss == 0


def test_penalties_of_no_rows(model: Path, policy: Policy, tmp_path: Path) -> None:
    config = make_config(model, "algo.kl_coef=1.0", "algo.kl_in=reward", "algo.kl_estimator=k1")
    assert learner_of(policy, config, tmp_path).penalties([]) == []


def test_a_bonus_on_entropy_raises_it(model: Path, policy: Policy, tmp_path: Path, rows) -> None:
    def entropy() -> float:
        (each,) = pack(rows[:1], 1000)
        with torch.no_grad():
            return float(entropies(log_distributions(policy.model, each, 1.0), each).mean())

    learner = learner_of(policy, make_config(model, "algo.entropy_coef=0.5"), tmp_path)
    before = entropy()
    report = learner.update(without_reward(rows), 1)
    assert report.loss < 0
    for step in range(2, 5):
        learner.update(without_reward(rows), step)
    assert entropy() > before


def test_a_model_that_rules_tokens_out_has_an_entropy(
    model: Path, policy: Policy, tmp_path: Path, rows
) -> None:
    """0 times -inf counts as 0, as in sampling: nothing is skipped, weights stay numbers."""
    unused = next(
        token for token in range(7, 60) if not any(token in row.tokens.tolist() for row in rows)
    )

    def rule_out(module: torch.nn.Module, given: object, logits: torch.Tensor) -> torch.Tensor:
        place = torch.arange(logits.shape[-1]) == unused
        return logits.masked_fill(place, -torch.inf)

    policy.model.lm_head.register_forward_hook(rule_out)
    learner = learner_of(policy, make_config(model, "algo.entropy_coef=0.5"), tmp_path)
    report = learner.update(without_reward(rows), 1)
    assert (report.skipped, report.loss < 0) == (0, True)
    assert all(bool(torch.isfinite(p).all()) for _, p in policy.trainable())


@pytest.mark.parametrize("flag", ["algo.kl_coef=1.0", "algo.entropy_coef=1.0"])
def test_stored_tokens_have_no_part_in_kl_and_entropy(
    model: Path, tmp_path: Path, rows, flag: str
) -> None:
    """Both are estimates over what the policy samples now."""
    picks = [stored(row, slot) for slot, row in enumerate(rows)]
    found = []
    for flags in ((), (flag,)):
        policy = load_small(model)
        reference = Reference(load_small(model))
        shake(policy)
        learner = Learner(policy, make_config(model, *flags), Guard(tmp_path, 3), reference)
        learner.update(batch_of((), picks), 1)
        found.append(policy)
    assert difference(*found) == 0


def test_a_trained_adapter_is_part_of_the_reference(model: Path, tmp_path: Path, rows) -> None:
    """A run may begin with one: its KL is to where it began, and it can be resumed."""
    began = adapted(model)
    shake(began)
    began.save(tmp_path / "sft")
    flags = ["algo.kl_coef=1.0", "model.lora.rank=2", "model.lora.alpha=4.0"]
    flags += ["run.steps=2", "eval.every=0"]
    config = make_config(tmp_path / "sft", *flags)
    policy = policy_from(config, None)
    reference = make_reference(config, policy, None)
    assert reference is not None
    assert total_kl(policy, reference, rows) == pytest.approx(0, abs=1e-6)
    assert total_kl(policy, Reference(load_small(model)), rows) > 1e-3
    run_to_end(tmp_path / "run", config)
    with open_session(RunFolder(tmp_path / "run"), {}) as again:
        assert again.done == 2
