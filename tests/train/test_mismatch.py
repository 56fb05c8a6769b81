"""Two engines, one policy: measured, corrected, and off where one model does both."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.config.schema.rollout import RolloutSettings
from recollect.models.loading import Policy
from recollect.train.batch import Batch, ScoredRow
from recollect.train.mismatch import cap_of, compare
from recollect.trajectory import Trajectory

from .learning import changed, difference, grpo, learner_of, weights
from .small import collect_rows, load_small, make_config

VLLM = "rollout.engine=vllm"
LN2 = math.log(2)


def shifted(row: Trajectory, by: float) -> Trajectory:
    """The same row, sampled by an engine whose log-probs are lower by so much."""
    assert row.logprobs is not None
    return replace(row, logprobs=(row.logprobs - np.float32(by)).astype(np.float32))


def test_only_another_engine_is_corrected() -> None:
    assert cap_of(RolloutSettings()) is None
    assert cap_of(RolloutSettings(engine="vllm")) == 2.0
    assert cap_of(RolloutSettings(engine="vllm", mismatch_cap=None)) is None


def test_ratios_by_hand(policy: Policy, model: Path) -> None:
    rows = collect_rows(policy, make_config(model))[:2]
    counts = [row.sampled_count for row in rows]
    told = [shifted(rows[0], LN2), shifted(rows[1], -LN2)]
    scored = [ScoredRow(row, 0.0, False) for row in told]

    def own(asked: object) -> list[np.ndarray]:
        return [np.asarray(row.logprobs) for row in rows]

    found = compare(scored, RolloutSettings(engine="vllm", mismatch_cap=1.5), own)
    assert found.mismatch is not None
    first, second = (count / sum(counts) for count in counts)
    assert found.mismatch.ratios.mean == pytest.approx(2 * first + second / 2, rel=1e-5)
    assert found.mismatch.ratios.max == pytest.approx(2.0, rel=1e-5)
    assert found.mismatch.capped == pytest.approx(first)
    assert set(found.old) == {row.id for row in rows}
    measured = compare(scored, RolloutSettings(engine="vllm", mismatch_cap=None), own)
    assert measured.mismatch == replace(found.mismatch, capped=None)
    assert not measured.old


def test_one_model_that_does_both_is_not_asked() -> None:
    found = compare([], RolloutSettings(engine="vllm"), lambda rows: 1 / 0)  # type: ignore[arg-type,return-value]
    assert found.mismatch is None
    assert compare([None], RolloutSettings(), lambda rows: 1 / 0).mismatch is None  # type: ignore[list-item,arg-type,return-value]


def test_rows_without_notes_are_left_to_their_own_correction(policy: Policy, model: Path) -> None:
    rows = collect_rows(policy, make_config(model))[:2]
    scored = [ScoredRow(rows[0], 0.0, True), ScoredRow(rows[1], 0.0, True, stripped=True)]
    found = compare(
        scored,
        RolloutSettings(engine="vllm"),
        lambda asked: [np.asarray(row.logprobs) for row in asked],
    )
    assert set(found.old) == {rows[0].id}


def trained(model: Path, tmp_path: Path, batch: Batch, *flags: str) -> Policy:
    policy = load_small(model)
    learner = learner_of(policy, make_config(model, *flags), tmp_path)
    learner.update(batch, 1)
    return policy


def test_an_engine_that_agrees_changes_nothing(model: Path, tmp_path: Path) -> None:
    """Log-probs of the trainer's own: the weights are exactly 1, and so is the first ratio."""
    rows = collect_rows(load_small(model), make_config(model))
    learner = learner_of(load_small(model), make_config(model), tmp_path)
    same = [
        replace(row, logprobs=now) for row, now in zip(rows, learner.logprobs(rows), strict=True)
    ]
    off = trained(model, tmp_path, grpo(same))
    on = trained(model, tmp_path, grpo(same), VLLM)
    assert difference(on, off) == 0.0


def test_a_gradient_is_weighted_by_the_capped_ratio(model: Path, tmp_path: Path) -> None:
    """By 2, 1.5 (the cap) and 1/2; without a correction PPO's ratio does what it does."""
    rows = collect_rows(load_small(model), make_config(model))
    own = learner_of(load_small(model), make_config(model), tmp_path).logprobs(rows)
    exact = [replace(row, logprobs=now) for row, now in zip(rows, own, strict=True)]

    def gradient(by: float, *flags: str) -> torch.Tensor:
        batch = grpo([shifted(row, by) for row in exact])
        plain = "train.max_grad_norm=1000000", "algo.loss=reinforce"
        learner = learner_of(load_small(model), make_config(model, *plain, *flags), tmp_path)
        before = torch.cat([p.flatten() for p in weights(learner.policy).values()])
        steps: list[torch.Tensor] = []
        optimizer = learner._optimizer

        def note(*args: object, **kwargs: object) -> None:
            parts = [p.grad.flatten() for _, p in learner.parameters if p.grad is not None]
            steps.append(torch.cat(parts))

        optimizer.register_step_pre_hook(note)
        report = learner.update(batch, 1)
        assert changed(learner.policy, weights(load_small(model)))
        assert before.numel() == steps[0].numel()
        if flags:
            assert report.mismatch is not None
            assert report.mismatch.ratios.mean == pytest.approx(math.exp(by), rel=1e-4)
            assert report.drift is not None
            assert report.drift.logprob_difference == pytest.approx(abs(by), abs=1e-5)
        return steps[0]

    plain = gradient(0.0)
    for by, factor in ((LN2, 2.0), (-LN2, 0.5)):
        torch.testing.assert_close(gradient(by, VLLM), factor * plain, rtol=1e-4, atol=1e-7)
    capped = gradient(LN2, VLLM, "rollout.mismatch_cap=1.5")
    torch.testing.assert_close(capped, 1.5 * plain, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(
        gradient(LN2, VLLM, "rollout.mismatch_cap=none"), plain, rtol=1e-4, atol=1e-7
    )
