from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.algo.rows import Rows, row_counts, row_means, row_spans, row_sums, spread

from .batches import Batch, batches, bounded, flags, gradient, tokens


def test_lengths_to_rows() -> None:
    rows = Rows.from_lengths([2, 0, 3])
    assert rows.index.tolist() == [0, 0, 2, 2, 2]
    assert rows.count == 3
    assert Rows.from_lengths([]).count == 0


def test_labels_to_rows() -> None:
    rows = Rows.from_labels(torch.tensor([7, -3, 7, 100]))
    assert rows.index.tolist() == [1, 0, 1, 2]
    assert rows.count == 3
    assert Rows.from_labels(torch.zeros(0, dtype=torch.int64)).count == 0


@pytest.mark.parametrize("index", [[0, 2], [-1, 0]])
def test_an_index_outside_the_rows_is_refused(index: list[int]) -> None:
    with pytest.raises(ValueError, match="there are 2 rows"):
        Rows(torch.tensor(index), 2)


def test_construction_checks() -> None:
    with pytest.raises(ValueError, match="int64"):
        Rows(torch.tensor([0.0]), 1)
    with pytest.raises(ValueError, match="negative"):
        Rows(torch.zeros(0, dtype=torch.int64), -1)


def test_sums_counts_means_and_spread_by_hand() -> None:
    rows = Rows(torch.tensor([0, 1, 0, 3]), 4)
    values, mask = tokens(1.0, 2.0, 5.0, 7.0), flags(1, 1, 1, 0)
    assert row_sums(values, rows).tolist() == [6.0, 2.0, 0.0, 7.0]
    assert row_counts(mask, rows).tolist() == [2, 1, 0, 0]
    assert row_means(values, rows, mask).tolist() == [3.0, 2.0, 0.0, 0.0]
    assert spread(tokens(10.0, 20.0, 30.0, 40.0), rows).tolist() == [10.0, 20.0, 10.0, 40.0]
    low, high = row_spans(values, rows)
    assert low.tolist() == [1.0, 2.0, float("inf"), 7.0]
    assert high.tolist() == [5.0, 2.0, float("-inf"), 7.0]


def test_masked_nan_does_not_reach_the_mean() -> None:
    rows = Rows.from_lengths([2])
    values = tokens(1.0, float("nan"), grad=True)
    mean = row_means(values, rows, flags(1, 0))
    assert mean.tolist() == [1.0]
    assert gradient(mean.sum(), values).tolist() == [1.0, 0.0]


def test_spread_wants_one_value_per_row() -> None:
    with pytest.raises(ValueError, match=r"values\[1\] must have one entry for 2 rows"):
        spread(torch.zeros(1), Rows.from_lengths([1, 1]))


def test_gradients() -> None:
    rows = Rows(torch.tensor([1, 0, 1, 1]), 3)
    values = tokens(0.3, -1.0, 2.0, 0.5, grad=True)
    mask = flags(1, 1, 0, 1)
    assert torch.autograd.gradcheck(lambda x: row_sums(x, rows), values)
    assert torch.autograd.gradcheck(lambda x: row_means(x, rows, mask), values)
    assert torch.autograd.gradcheck(lambda x: spread(x, rows), tokens(1.0, 2.0, 3.0, grad=True))


@bounded
@given(batches)
def test_nothing_is_lost_between_tokens_and_rows(batch: Batch) -> None:
    torch.testing.assert_close(row_sums(batch.logprobs, batch.rows).sum(), batch.logprobs.sum())
    assert int(row_counts(batch.mask, batch.rows).sum()) == int(batch.mask.sum())
    assert torch.isfinite(row_means(batch.logprobs, batch.rows, batch.mask)).all()


@bounded
@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_tokens_is_irrelevant(batch: Batch, random: Random) -> None:
    order = list(range(batch.mask.numel()))
    random.shuffle(order)
    shuffled = Rows(batch.rows.index[order], batch.rows.count)
    torch.testing.assert_close(
        row_means(batch.logprobs[order], shuffled, batch.mask[order]),
        row_means(batch.logprobs, batch.rows, batch.mask),
    )
