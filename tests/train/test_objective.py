from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recollect.algo.rows import Rows
from recollect.train.objective import aggregated, kl_losses, policy_losses

from .small import make_config

# Two rows of three tokens and one, out of three in the step: the third is in another pack.
ROWS = Rows(torch.tensor([0, 0, 0, 1]), 3)
LOSSES = torch.tensor([1.0, 2.0, 3.0, 10.0])


@pytest.mark.parametrize(
    ("mode", "denominator", "expected"),
    [
        ("token-mean", 8, 16 / 8),
        ("seq-mean-token-mean", 3, (2 + 10) / 3),
        ("seq-mean-token-sum", 3, 16 / 3),
        ("seq-mean-token-sum-norm", 3, 16 / 3 / 120),
    ],
)
def test_a_packs_share_by_hand(mode: str, denominator: int, expected: float) -> None:
    config = make_config(Path("m"), f"algo.aggregation={mode}")
    found = aggregated(config, LOSSES, ROWS, float(denominator))
    assert float(found) == pytest.approx(expected)


def test_a_norm_of_ones_own() -> None:
    flags = ["algo.aggregation=seq-mean-token-sum-norm", "algo.aggregation_norm=4"]
    config = make_config(Path("m"), *flags)
    assert float(aggregated(config, LOSSES, ROWS, 3.0)) == pytest.approx(16 / 3 / 4)


def losses(*flags: str) -> list[float]:
    """Losses of tokens whose ratios are 1.5, 1.5 and 1, with advantages 1, -1 and 2."""
    algo = make_config(Path("m"), *flags).algo
    now = torch.tensor([1.5, 1.5, 1.0]).log()
    before = torch.zeros(3)
    advantages = torch.tensor([1.0, -1.0, 2.0])
    rows = Rows(torch.tensor([0, 1, 2]), 3)
    everything = torch.ones(3, dtype=torch.bool)
    return policy_losses(algo, now, before, advantages, everything, rows)[0].tolist()


def test_the_settings_reach_the_losses() -> None:
    assert losses() == pytest.approx([-1.2, 1.5, -2.0])
    assert losses("algo.clip_high=0.3") == pytest.approx([-1.3, 1.5, -2.0])
    assert losses("algo.dual_clip=1.25") == pytest.approx([-1.2, 1.25, -2.0])
    assert losses("algo.loss=cispo", "algo.clip_high=0.3") == pytest.approx([-1.3, 1.3, -2.0])
    assert losses("algo.loss=importance_weighted") == pytest.approx([-1.5, 1.5, -2.0])
    assert losses("algo.loss=reinforce") == pytest.approx([-1.0, 1.0, -2.0])
    assert losses("algo.loss=topr") == pytest.approx([-1.0, 1.0, -2.0])
    narrow = ("algo.clip_low=0.1", "algo.clip_high=0.1")
    assert losses("algo.loss=gspo", *narrow) == pytest.approx([-1.1, 1.5, -2.0])


def test_kl_shows_k3_and_moves_by_what_was_chosen() -> None:
    reference = torch.zeros(1)
    for estimator, slope in (("k2", -0.5), ("k3", 1 - torch.tensor(0.5).exp().item())):
        flags = ["algo.kl_coef=2.0", f"algo.kl_estimator={estimator}"]
        logprobs = torch.tensor([-0.5], requires_grad=True)
        everything = torch.ones(1, dtype=torch.bool)
        algo = make_config(Path("m"), *flags).algo
        found = kl_losses(algo, logprobs, reference, everything)
        assert kl_losses(algo, logprobs, reference, ~everything).item() == 0.0
        found.sum().backward()
        assert found.item() == pytest.approx(2 * (torch.tensor(0.5).exp().item() - 1.5))
        assert logprobs.grad is not None
        assert logprobs.grad.item() == pytest.approx(2 * slope)
