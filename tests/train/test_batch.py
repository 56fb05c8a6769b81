from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.train.batch import Batch, ScoredRow, minibatches

from .rows import make_row


def scored(count: int) -> list[ScoredRow]:
    row = make_row([1, 2], [False, True])
    return [ScoredRow(row, float(number), number % 3 != 0) for number in range(count)]


def test_only_rows_with_signal_train() -> None:
    batch = Batch(tuple(scored(7)))
    assert [row.advantage for row in batch.training] == [1, 2, 4, 5]


def test_minibatches_by_hand() -> None:
    parts = minibatches(scored(7), 3)
    assert [[row.advantage for row in part] for part in parts] == [[0, 1, 2], [3, 4], [5, 6]]


@given(rows=st.integers(0, 40), count=st.integers(1, 12))
def test_minibatches_cover_all_rows_in_order(rows: int, count: int) -> None:
    whole = scored(rows)
    parts = minibatches(whole, count)
    assert [row for part in parts for row in part] == whole
    assert len(parts) == min(rows, count)
    sizes = [len(part) for part in parts]
    assert not sizes or max(sizes) - min(sizes) <= 1
