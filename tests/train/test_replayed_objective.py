"""The settings of a correction, through the function that the learner calls."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from algo.test_corrections import SHAPE_TABLE
from recollect.algo.rows import Rows
from recollect.train.objective import replayed_losses

from .small import make_config

ONE = Rows(torch.tensor([0]), 1)
YES = torch.tensor([True])


def at(ratio: float, advantage: float, *flags: str) -> tuple[float, float]:
    """Loss of one token and its slope in the log-prob."""
    correction = make_config(Path("m"), *(f"correction.{flag}" for flag in flags)).correction
    old = torch.tensor([-1.0], dtype=torch.float64)
    new = (old + math.log(ratio)).requires_grad_()
    advantages = torch.tensor([advantage], dtype=torch.float64)
    loss, _ = replayed_losses(correction, new, old, advantages, YES, ONE)
    (slope,) = torch.autograd.grad(loss.sum(), new)
    return loss.item(), slope.item()


@pytest.mark.parametrize(
    ("high", "ratio", "advantage", "loss"),
    # Reference 8.3.
    [(0.28, 2.0, 1.0, -1.28), (0.6, 2.0, 1.0, -1.6), (1.0, 2.0, 1.0, -2.0)]
    + [(0.6, 0.5, -1.0, 0.8), (0.6, 5.0, -1.0, 3.0)],
)
def test_golden_clip(high: float, ratio: float, advantage: float, loss: float) -> None:
    assert at(ratio, advantage, f"clip_high={high}")[0] == pytest.approx(loss)


def test_clip_settings_reach_the_loss() -> None:
    assert at(2.0, 1.0)[0] == pytest.approx(-2.0), "1.0 unless told otherwise"
    assert at(0.5, -1.0, "clip_low=0.1")[0] == pytest.approx(0.9)
    assert at(5.0, -1.0, "dual_clip=4.0")[0] == pytest.approx(4.0)
    assert at(5.0, -1.0, "dual_clip=none")[0] == pytest.approx(5.0)
    # Beyond the bound a token stops pulling.
    assert at(1.9, 1.0)[1] == pytest.approx(-1.9)
    assert at(2.1, 1.0)[1] == 0.0


@pytest.mark.parametrize(("ratio", "value", "pull", "relative"), SHAPE_TABLE)
def test_golden_shape(ratio: float, value: float, pull: float, relative: float) -> None:
    loss, slope = at(ratio, 1.0, "kind=shape")
    assert -loss == pytest.approx(value, abs=6e-4)
    assert -slope == pytest.approx(pull, abs=6e-4)
    assert -slope == pytest.approx(0.1 * ratio / (ratio + 0.1) ** 2, abs=1e-6)
    assert -slope / ratio == pytest.approx(relative, rel=0.06)


def test_other_kinds_and_their_settings() -> None:
    assert at(0.5, 2.0, "kind=shape", "shape_beta=0.5")[0] == pytest.approx(-1.0)
    assert at(3.0, 1.0, "kind=truncate") == pytest.approx((-2.0, -2.0))
    assert at(3.0, -1.0, "kind=truncate", "cap=2.5") == pytest.approx((2.5, 2.5))
    assert at(3.0, 1.0, "kind=mask") == (0.0, 0.0)
    assert at(3.0, 1.0, "kind=mask", "band_high=4") == pytest.approx((-3.0, -3.0))
    assert at(0.4, 1.0, "kind=mask") == (0.0, 0.0)
    assert at(0.4, 1.0, "kind=mask", "band_low=0.3") == pytest.approx((-0.4, -0.4))
    assert at(7.0, -1.0, "kind=weight") == pytest.approx((7.0, 7.0))


@pytest.mark.parametrize("kind", ["clip", "shape", "truncate", "mask", "weight"])
def test_the_weight_scales_value_and_gradient(kind: str) -> None:
    loss, slope = at(1.3, 1.5, f"kind={kind}")
    assert at(1.3, 1.5, f"kind={kind}", "weight=3") == pytest.approx((3 * loss, 3 * slope))
    assert at(1.3, 1.5, f"kind={kind}", "weight=0") == pytest.approx((0, 0))


def two_rows(level: str, kind: str = "weight") -> Tensor:
    """Ratios 2 and 4 of one row, 1.5 of another, a token outside the mask; all advantages 1."""
    flags = [f"correction.level={level}", f"correction.kind={kind}", "correction.cap=5"]
    correction = make_config(Path("m"), *flags).correction
    old = torch.full((4,), -3.0, dtype=torch.float64)
    new = old + torch.tensor([2.0, 4.0, 1.5, 9.0], dtype=torch.float64).log()
    mask = torch.tensor([True, True, True, False])
    rows = Rows(torch.tensor([0, 0, 1, 2]), 3)
    return replayed_losses(correction, new, old, torch.ones_like(old), mask, rows)[0]


def test_levels() -> None:
    assert two_rows("token").tolist() == pytest.approx([-2, -4, -1.5, 0])
    assert two_rows("sequence").tolist() == pytest.approx([-8, -8, -1.5, 0])
    assert two_rows("geometric").tolist() == pytest.approx([-(8**0.5), -(8**0.5), -1.5, 0])
    assert two_rows("sequence", "truncate").tolist() == pytest.approx([-5, -5, -1.5, 0])
