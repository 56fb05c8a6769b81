import math

import pytest
import torch
from hypothesis import given

from recollect.algo.ratios import (
    MAX_LOG_RATIO,
    Level,
    effective_sample_size,
    log_ratios,
    ratio_quantiles,
    row_effective_sample_size,
    row_ratio_quantiles,
)
from recollect.algo.rows import Rows, row_counts, row_means, row_sums, spread

from .batches import Batch, batches, bounded, flags, gradient, tokens

LEVELS: list[Level] = ["token", "geometric", "sequence"]
ROWS = Rows(torch.tensor([0, 0, 1, 0]), 2)
NEW, OLD = tokens(-1.0, -2.0, -3.0, -9.0), tokens(-1.5, -1.0, -3.0, -1.0)
MASK = flags(1, 1, 1, 0)


def test_the_three_levels_by_hand() -> None:
    # d = (.5, -1, 0) inside the mask; the first row's sum is -.5 and its mean -.25.
    assert log_ratios(NEW, OLD, MASK).tolist() == [0.5, -1.0, 0.0, 0.0]
    geometric = log_ratios(NEW, OLD, MASK, level="geometric", rows=ROWS)
    assert geometric.tolist() == [-0.25, -0.25, 0.0, 0.0]
    sequence = log_ratios(NEW, OLD, MASK, level="sequence", rows=ROWS)
    assert sequence.tolist() == [-0.5, -0.5, 0.0, 0.0]


@pytest.mark.parametrize("level", LEVELS)
def test_each_token_is_moved_by_its_own_score(level: Level) -> None:
    new, old = NEW.clone().requires_grad_(), OLD.clone().requires_grad_()
    found = log_ratios(new, old, MASK, level=level, rows=ROWS)
    for position, counts in enumerate(MASK.tolist()):
        own = torch.zeros(4, dtype=torch.float64)
        own[position] = float(counts)
        (moved,) = torch.autograd.grad(found[position], new, retain_graph=True)
        assert torch.equal(moved, own)
    assert gradient(found.sum(), old).tolist() == [0.0] * 4


def test_gradients_by_finite_differences() -> None:
    new = NEW.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_ratios(x, OLD, MASK), new)


@pytest.mark.parametrize("level", LEVELS)
def test_the_limit_bounds_the_value_and_lets_the_gradient_pass(level: Level) -> None:
    new = torch.tensor([0.0, -200.0], requires_grad=True)
    rows = Rows.from_lengths([1, 1])
    old = torch.tensor([-200.0, 0.0])
    found = log_ratios(new, old, flags(1, 1), level=level, rows=rows)
    assert found.tolist() == [MAX_LOG_RATIO, -MAX_LOG_RATIO]
    assert torch.isfinite(found.exp().square()).all()
    assert gradient(found.sum(), new).tolist() == [1.0, 1.0]


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="level 'sequence' needs rows"):
        log_ratios(NEW, OLD, MASK, level="sequence")
    with pytest.raises(ValueError, match="level must be"):
        log_ratios(NEW, OLD, MASK, level="turn", rows=ROWS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logprobs\[4\], behaviour_logprobs\[3\]"):
        log_ratios(NEW, OLD[:3], MASK)
    with pytest.raises(ValueError, match=r"quantiles\[1\] must be in \[0, 1\]"):
        ratio_quantiles(NEW, MASK, (0.5, 1.5))
    with pytest.raises(ValueError, match=r"rows\[2\]"):
        row_effective_sample_size(NEW, Rows.from_lengths([2]), MASK)


def test_effective_sample_size_by_hand() -> None:
    # Weights 1, 2, 3: 36 / 14. A masked weight does not count.
    weights = tokens(0.0, math.log(2), math.log(3), 50.0)
    assert effective_sample_size(weights, MASK).item() == pytest.approx(36 / 14)
    # Per row: (1 + 2)^2 / 5 and one weight alone.
    torch.testing.assert_close(row_effective_sample_size(weights, ROWS, MASK), tokens(1.8, 1.0))


def test_effective_sample_size_at_the_extremes() -> None:
    everything = torch.ones(8, dtype=torch.bool)
    assert effective_sample_size(torch.full((8,), 500.0), everything).item() == pytest.approx(8)
    dominated = torch.tensor([500.0, *[-500.0] * 7])
    assert effective_sample_size(dominated, everything).item() == pytest.approx(1)
    assert effective_sample_size(dominated, ~everything).item() == 0.0
    assert effective_sample_size(torch.zeros(0), flags()).item() == 0.0


def test_quantiles_by_hand() -> None:
    values = tokens(1.0, 2.0, 4.0, 100.0).log()
    found = ratio_quantiles(values, MASK, (0.0, 0.25, 0.5, 1.0))
    torch.testing.assert_close(found, tokens(1.0, 1.5, 2.0, 4.0))
    rows = row_ratio_quantiles(values, ROWS, MASK, (0.5, 1.0))
    torch.testing.assert_close(rows, torch.stack([tokens(1.5, 2.0), tokens(4.0, 4.0)]))


def test_quantiles_of_nothing_are_zero() -> None:
    assert ratio_quantiles(NEW, flags(0, 0, 0, 0), (0.5,)).tolist() == [0.0]
    assert ratio_quantiles(torch.zeros(0), flags(), (0.0, 1.0)).tolist() == [0.0, 0.0]
    rows = Rows(torch.tensor([1, 1, 1, 1]), 3)
    found = row_ratio_quantiles(torch.zeros(4), rows, MASK, (0.5,))
    assert found.tolist() == [[0.0], [1.0], [0.0]]


def test_the_variance_wall() -> None:
    """Reference peers §3.2: with log-ratios of deviation s over T tokens, ESS is exp(-T s^2)."""
    generator = torch.Generator().manual_seed(0)
    drift = 0.02 * math.sqrt(1000) * torch.randn(40_000, generator=generator, dtype=torch.float64)
    everything = torch.ones(40_000, dtype=torch.bool)
    fraction = effective_sample_size(drift, everything).item() / 40_000
    assert fraction == pytest.approx(math.exp(-0.4), abs=0.02)


@bounded
@given(batches)
def test_levels_agree_with_rows(batch: Batch) -> None:
    new, old, _, mask = batch.arguments
    for level in ("geometric", "sequence"):
        drift = torch.where(mask, new - old, 0.0)
        over = (
            row_means(drift, batch.rows, mask)
            if level == "geometric"
            else row_sums(drift, batch.rows)
        )
        per_row = over.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        per_token = log_ratios(new, old, mask, level=level, rows=batch.rows)
        expected = torch.where(mask, spread(per_row, batch.rows), 0.0)
        torch.testing.assert_close(per_token, expected)
        assert (per_token.abs() <= MAX_LOG_RATIO).all()


@bounded
@given(batches)
def test_effective_sample_size_is_between_one_and_n(batch: Batch) -> None:
    drift = log_ratios(batch.logprobs, batch.behaviour, batch.mask)
    found = row_effective_sample_size(drift, batch.rows, batch.mask)
    counts = row_counts(batch.mask, batch.rows)
    assert torch.isfinite(found).all()
    assert ((found >= 0.999) | (counts == 0)).all()
    assert (found <= counts * (1 + 1e-9)).all()


@bounded
@given(batches)
def test_quantiles_equal_torch(batch: Batch) -> None:
    drift = log_ratios(batch.logprobs, batch.behaviour, batch.mask).detach()
    levels = (0.0, 0.1, 0.5, 0.99, 1.0)
    inside = drift.exp()[batch.mask]
    if inside.numel():
        reference = torch.quantile(inside, torch.tensor(levels, dtype=torch.float64))
        torch.testing.assert_close(ratio_quantiles(drift, batch.mask, levels), reference)
    per_row = row_ratio_quantiles(drift, batch.rows, batch.mask, levels)
    for row in range(batch.rows.count):
        chosen = batch.mask & (batch.rows.index == row)
        torch.testing.assert_close(per_row[row], ratio_quantiles(drift, chosen, levels))
