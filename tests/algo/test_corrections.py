import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from torch import Tensor

from recollect.algo import corrections
from recollect.algo.ratios import Level, log_ratios
from recollect.algo.rows import Rows
from recollect.algo.surrogate import TokenDiagnostics

from .batches import Batch, batches, bounded, flags, gradient, shares, tokens

Correction = Callable[..., tuple[Tensor, TokenDiagnostics]]
CORRECTIONS: dict[str, Correction] = {
    "weight": corrections.weight,
    "clip": partial(corrections.clip, off_cliprange_high=0.6),
    "shape": corrections.shape,
    "truncate": partial(corrections.truncate, cap=2.0),
    "mask_out": partial(corrections.mask_out, low=0.5, high=2.0),
}
LEVELS: list[Level] = ["token", "geometric", "sequence"]

# Reference §4.3, beta = 0.1: ratio, f, gradient weight, gradient weight relative to unshaped.
SHAPE_TABLE = [
    (0.01, 0.091, 0.083, 8.3),
    (0.05, 0.333, 0.222, 4.4),
    (0.1, 0.500, 0.250, 2.5),
    (0.216, 0.684, 0.216, 1.0),
    (0.5, 0.833, 0.139, 0.28),
    (1.0, 0.909, 0.083, 0.083),
    (1.6, 0.941, 0.055, 0.035),
    (3.0, 0.968, 0.031, 0.010),
    (10.0, 0.990, 0.010, 0.001),
]


def at(
    correction: Correction, ratio: float, advantage: float
) -> tuple[float, float, TokenDiagnostics]:
    """Objective, its derivative in the log-prob, and diagnostics of one token."""
    behaviour = tokens(-1.0)
    new = (behaviour + math.log(ratio)).requires_grad_()
    objective, found = correction(new, behaviour, tokens(advantage), flags(1))
    return objective.item(), gradient(objective.sum(), new).item(), found


@pytest.mark.parametrize(("ratio", "value", "pull", "relative"), SHAPE_TABLE)
def test_golden_shape(ratio: float, value: float, pull: float, relative: float) -> None:
    objective, slope, found = at(corrections.shape, ratio, 1.0)
    assert objective == pytest.approx(value, abs=6e-4)
    assert slope == pytest.approx(pull, abs=6e-4)
    assert slope / ratio == pytest.approx(relative, rel=0.06)
    # The table's rounding aside, the closed form holds exactly.
    assert slope == pytest.approx(0.1 * ratio / (ratio + 0.1) ** 2, abs=1e-12)
    assert found.weights.item() == pytest.approx(slope, abs=1e-12)
    assert shares(found).cut == 0.0


def test_golden_shape_landmarks() -> None:
    beta = 0.1
    assert at(corrections.shape, beta, 1.0)[1] == pytest.approx(0.25)
    crossover = math.sqrt(beta) - beta
    assert at(corrections.shape, crossover, 1.0)[1] == pytest.approx(crossover)
    assert at(corrections.shape, 1.0, 1.0)[1] == pytest.approx(1 / 12.1)
    # Both signs of A, without any clip.
    assert at(corrections.shape, 0.5, -2.0)[0] == pytest.approx(-2 * 0.5 / 0.6)


@pytest.mark.parametrize(
    ("high", "ratio", "advantage", "objective"),
    [(0.28, 2.0, 1.0, 1.28), (0.6, 2.0, 1.0, 1.6), (1.0, 2.0, 1.0, 2.0)]
    + [(0.6, 0.5, -1.0, -0.8), (0.6, 5.0, -1.0, -3.0)],
)
def test_golden_clip(high: float, ratio: float, advantage: float, objective: float) -> None:
    clip = partial(corrections.clip, off_cliprange_high=high)
    assert at(clip, ratio, advantage)[0] == pytest.approx(objective)


def test_the_looser_bound_keeps_the_gradient() -> None:
    tight = partial(corrections.clip, off_cliprange_high=0.28)
    loose = partial(corrections.clip, off_cliprange_high=1.0)
    assert at(tight, 1.5, 1.0)[1] == 0.0
    assert shares(at(tight, 1.5, 1.0)[2]).high == 1.0
    assert at(loose, 1.5, 1.0)[1] == pytest.approx(1.5)
    assert shares(at(loose, 1.5, 1.0)[2]).high == 0.0


def test_truncate_by_hand() -> None:
    truncate = CORRECTIONS["truncate"]
    assert at(truncate, 1.5, 2.0)[:2] == pytest.approx((3.0, 3.0))
    # Beyond the cap the token still trains, with the cap as its weight, for both signs.
    for advantage in (2.0, -2.0):
        objective, slope, found = at(truncate, 50.0, advantage)
        assert (objective, slope) == pytest.approx((2 * advantage, 2 * advantage))
        assert shares(found).high == 1.0


def test_mask_out_by_hand() -> None:
    mask_out = CORRECTIONS["mask_out"]
    assert at(mask_out, 1.5, 2.0)[:2] == pytest.approx((3.0, 3.0))
    objective, slope, found = at(mask_out, 2.5, 2.0)
    assert (objective, slope) == (0.0, 0.0)
    assert shares(found).high == 1.0
    objective, slope, found = at(mask_out, 0.4, 2.0)
    assert (objective, slope) == (0.0, 0.0)
    assert shares(found).low == 1.0


def test_weight_by_hand() -> None:
    assert at(corrections.weight, 7.0, -2.0)[:2] == pytest.approx((-14.0, -14.0))


def test_sequence_forms_by_hand() -> None:
    # Two rows: ratios (2, 4) with product 8 and geometric mean sqrt 8, and (1.5) alone.
    rows, mask = Rows.from_lengths([2, 1]), flags(1, 1, 1)
    behaviour = tokens(-3.0, -3.0, -3.0)
    new = (behaviour + tokens(2.0, 4.0, 1.5).log()).requires_grad_()
    ones = torch.ones(3, dtype=torch.float64)
    product, found = corrections.truncate(
        new, behaviour, ones, mask, cap=5.0, level="sequence", rows=rows
    )
    torch.testing.assert_close(product, tokens(5.0, 5.0, 1.5))
    assert found.clipped_high.tolist() == [True, True, False]
    mean, _ = corrections.truncate(
        new, behaviour, ones, mask, cap=5.0, level="geometric", rows=rows
    )
    torch.testing.assert_close(mean, tokens(8**0.5, 8**0.5, 1.5))
    # Masking at a row level drops whole rows.
    kept, found = corrections.mask_out(
        new, behaviour, ones, mask, low=0.5, high=2.0, level="geometric", rows=rows
    )
    torch.testing.assert_close(kept, tokens(0.0, 0.0, 1.5))
    torch.testing.assert_close(gradient(kept.sum(), new), tokens(0.0, 0.0, 1.5))
    assert shares(found).cut == pytest.approx(2 / 3)
    shaped, _ = corrections.shape(new, behaviour, ones, mask, beta=1.0, level="sequence", rows=rows)
    torch.testing.assert_close(shaped, tokens(8 / 9, 8 / 9, 0.6))


# The weight of `truncate` is a constant by definition: it is checked in closed form below.
@pytest.mark.parametrize("name", ["weight", "clip", "shape", "mask_out"])
def test_finite_differences_at_token_level(name: str) -> None:
    behaviour = tokens(-1.0, -1.0, -1.0, -1.0)
    new = (behaviour + tokens(1.1, 1.9, 0.6, 3.5).log()).requires_grad_()
    advantages, mask = tokens(1.0, -0.5, 2.0, 1.0), flags(1, 1, 1, 1)
    assert torch.autograd.gradcheck(
        lambda x: CORRECTIONS[name](x, behaviour, advantages, mask)[0], new
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CORRECTIONS)
@bounded
@given(batch=batches)
def test_gradient_is_the_reported_weight_times_the_advantage(
    name: str, level: Level, batch: Batch
) -> None:
    objective, found = CORRECTIONS[name](*batch.arguments, level=level, rows=batch.rows)
    slope = gradient(objective.sum(), batch.logprobs)
    expected = torch.where(batch.mask, found.weights * batch.advantages, 0.0)
    torch.testing.assert_close(slope, expected, atol=1e-12, rtol=1e-9)
    assert torch.isfinite(objective).all()
    assert (objective[~batch.mask] == 0).all()
    assert (slope[~batch.mask] == 0).all()
    assert not found.weights.requires_grad


@pytest.mark.parametrize("name", CORRECTIONS)
@bounded
@given(batch=batches)
def test_the_value_is_a_weight_times_the_advantage_within_its_bounds(
    name: str, batch: Batch
) -> None:
    objective, _ = CORRECTIONS[name](*batch.arguments)
    ceiling = {"weight": math.exp(20), "clip": 3.0, "shape": 1.0, "truncate": 2.0, "mask_out": 2.0}
    bound = ceiling[name] * batch.advantages.abs()
    assert (objective.abs() <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", ["weight", "clip", "truncate", "mask_out"])
@bounded
@given(batch=batches)
def test_without_drift_every_correction_but_shape_is_reinforce(name: str, batch: Batch) -> None:
    new = batch.behaviour.clone().requires_grad_()
    objective, found = CORRECTIONS[name](new, batch.behaviour, batch.advantages, batch.mask)
    expected = torch.where(batch.mask, batch.advantages, 0.0)
    torch.testing.assert_close(objective, expected)
    torch.testing.assert_close(gradient(objective.sum(), new), expected)
    assert shares(found).cut == 0.0


@bounded
@given(batches)
def test_shape_is_x_over_x_plus_beta(batch: Batch) -> None:
    new, old, advantages, mask = batch.arguments
    ratios = log_ratios(new, old, mask).exp()
    expected = torch.where(mask, advantages * ratios / (ratios + 0.3), 0.0)
    torch.testing.assert_close(corrections.shape(*batch.arguments, beta=0.3)[0], expected)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_only_the_current_log_probs_carry_gradient(name: str) -> None:
    new = tokens(-1.0, -2.0, grad=True)
    old, advantages = tokens(-1.5, -1.8, grad=True), tokens(1.0, -1.0, grad=True)
    objective, _ = CORRECTIONS[name](new, old, advantages, flags(1, 1))
    assert gradient(objective.sum(), old).tolist() == [0.0, 0.0]
    objective, _ = CORRECTIONS[name](new, old, advantages, flags(1, 1))
    assert gradient(objective.sum(), advantages).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CORRECTIONS)
def test_masked_garbage_stays_out(name: str, level: Level) -> None:
    nan, inf = math.nan, math.inf
    new = tokens(-1.0, nan, -inf, grad=True)
    objective, found = CORRECTIONS[name](
        new,
        tokens(-1.2, -1.0, inf),
        tokens(1.0, nan, -inf),
        flags(1, 0, 0),
        level=level,
        rows=Rows.from_lengths([3]),
    )
    slope = gradient(objective.sum(), new)
    assert torch.isfinite(objective).all()
    assert torch.isfinite(slope).all()
    assert slope[1:].tolist() == [0.0, 0.0]
    assert math.isfinite(shares(found).weight)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_extreme_drift_is_finite_in_float32(name: str) -> None:
    new = torch.tensor([0.0, -300.0, 0.0, -300.0], requires_grad=True)
    old = torch.tensor([-300.0, 0.0, -300.0, 0.0])
    objective, _ = CORRECTIONS[name](
        new, old, torch.tensor([1.0, 1.0, -1.0, -1.0]), flags(1, 1, 1, 1)
    )
    assert torch.isfinite(objective).all()
    assert torch.isfinite(gradient(objective.sum(), new)).all()


@pytest.mark.parametrize("name", CORRECTIONS)
def test_no_tokens(name: str) -> None:
    empty = torch.zeros(0)
    objective, found = CORRECTIONS[name](empty.requires_grad_(), empty, empty, flags())
    assert objective.tolist() == []
    assert shares(found).cut == 0.0


@pytest.mark.parametrize("name", CORRECTIONS)
def test_wrong_shapes_and_missing_rows(name: str) -> None:
    two, three = torch.zeros(2), torch.zeros(3)
    with pytest.raises(ValueError, match=r"advantages\[3\]"):
        CORRECTIONS[name](two, two, three, flags(1, 1))
    with pytest.raises(ValueError, match="needs rows"):
        CORRECTIONS[name](two, two, two, flags(1, 1), level="sequence")


def test_wrong_parameters() -> None:
    one = (torch.zeros(1), torch.zeros(1), torch.zeros(1), flags(1))
    for beta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="beta must be positive"):
            corrections.shape(*one, beta=beta)
    with pytest.raises(ValueError, match="cap must be positive"):
        corrections.truncate(*one, cap=0.0)
    with pytest.raises(ValueError, match=r"high must be in \[1, inf\]"):
        corrections.mask_out(*one, low=0.5, high=0.9)
    with pytest.raises(ValueError, match=r"low must be in \[0, 1\]"):
        corrections.mask_out(*one, low=1.1, high=2.0)


def test_fresh_and_replayed_parts_add_up_over_disjoint_masks() -> None:
    new, old = tokens(-1.0, -2.0, -0.5), tokens(-1.2, -1.5, -0.5)
    advantages, mask, replayed = tokens(1.0, 1.0, -1.0), flags(1, 1, 1), flags(0, 1, 0)
    off, _ = corrections.shape(new, old, advantages, mask & replayed)
    on, _ = corrections.weight(new, old, advantages, mask & ~replayed)
    both = on + off
    assert both[1] == off[1]
    assert both[0] == on[0]
    assert both[2] == on[2]
