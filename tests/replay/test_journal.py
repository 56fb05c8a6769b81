from __future__ import annotations

import numpy as np
import pytest

from recollect.replay import journal
from recollect.replay.journal import Journal


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_a_reader_is_told_what_came_after_it() -> None:
    book = Journal()
    assert book.since(0) is not None
    book.write(rows(3, 1))
    first = book.place
    book.write(rows(2, 3))
    book.write(rows())
    told = book.since(0)
    assert told is not None
    assert told.tolist() == [1, 2, 3]
    later = book.since(first)
    assert later is not None
    assert later.tolist() == [2, 3]
    now = book.since(book.place)
    assert now is not None
    assert now.tolist() == []


def test_a_reader_that_comes_too_late_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MOST_ROWS", 5)
    book = Journal()
    book.write(rows(1, 2, 3))
    place = book.place
    book.write(rows(4, 5, 6))
    assert book.since(0) is None
    told = book.since(place)
    assert told is not None
    assert told.tolist() == [4, 5, 6]
    book.write(rows(*range(9)))
    assert book.since(place) is None
    kept = book.since(book.place)
    assert kept is not None
    assert kept.size == 0


def test_what_is_written_is_kept_as_it_was() -> None:
    book, given = Journal(), rows(7)
    book.write(given)
    given[0] = 8
    told = book.since(0)
    assert told is not None
    assert told.tolist() == [7]
