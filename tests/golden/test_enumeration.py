"""Every correction at every level, in expectation, on a policy small enough to enumerate.

`tests/algo/test_estimators.py` has the claims of each correction where they are exact. Here all
kinds and levels go through the settings and the function that the learner calls
(`recollect.proof.estimators`), against the table in the docstring of `algo/corrections.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recollect.algo.rows import Rows
from recollect.proof.estimators import LEVELS, PULLS, corrected, documented
from recollect.train.objective import replayed_losses
from train.small import make_config


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", PULLS)
def test_the_documented_gradient(kind: str, level: str, seed: int) -> None:
    case = corrected(kind, level, seed)
    expected = documented(kind, level, case)
    torch.testing.assert_close(case.found, expected, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_which_one_is_the_policy_gradient(seed: int) -> None:
    """The whole row's ratio, unbounded; nothing else is, by a margin that is no rounding."""
    for kind in PULLS:
        for level in LEVELS:
            case = corrected(kind, level, seed)
            gap = float((case.found - case.truth).abs().max())
            if (kind, level) == ("weight", "sequence"):
                assert gap < 1e-12
            else:
                assert gap > 1e-4, (kind, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_one_token_are_exact_at_every_level(level: str, seed: int) -> None:
    """A softmax over three tokens, one token long: the token is the row."""
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(3, generator=generator, dtype=torch.float64).requires_grad_()
    old = torch.randn(3, generator=generator, dtype=torch.float64).log_softmax(0)
    worth = torch.randn(3, generator=generator, dtype=torch.float64)
    correction = make_config(
        Path("m"), "correction.kind=weight", f"correction.level={level}"
    ).correction
    everything = torch.ones(3, dtype=torch.bool)
    losses, _ = replayed_losses(
        correction, theta.log_softmax(0), old, worth, everything, Rows(torch.arange(3), 3)
    )
    (found,) = torch.autograd.grad(-(old.exp() * losses).sum(), theta, retain_graph=True)
    (truth,) = torch.autograd.grad((theta.softmax(0) * worth).sum(), theta)
    torch.testing.assert_close(found, truth)
