import math

import pytest
import torch
from hypothesis import given

from recollect.algo.ratios import MAX_LOG_RATIO, Level, log_ratios, truncated_ratios
from recollect.algo.rows import Rows, row_means, row_sums, spread

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


def test_truncated_ratios_by_hand() -> None:
    # e^.5, e^-1 and 1 inside the mask; the last token is outside and weighs 1.
    found = truncated_ratios(NEW, OLD, MASK, cap=2.0)
    assert found.tolist() == pytest.approx([math.exp(0.5), math.exp(-1.0), 1.0, 1.0])
    assert truncated_ratios(NEW, OLD, MASK, cap=1.2).tolist()[0] == pytest.approx(1.2)
    assert truncated_ratios(NEW, NEW, MASK, cap=1.0).tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="cap"):
        truncated_ratios(NEW, OLD, MASK, cap=0.5)


def test_truncated_ratios_are_constants() -> None:
    new = NEW.clone().requires_grad_()
    assert not truncated_ratios(new, OLD, MASK, cap=2.0).requires_grad
