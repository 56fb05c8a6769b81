"""Credit: sums by hand, intervals against published examples."""

from __future__ import annotations

import pytest

from recollect.note_ledger import NoteTrial
from recollect.notes.credit import Credit, CreditBook, wilson
from recollect.types import NoteId

A, B = NoteId("a"), NoteId("b")


def test_wilson_by_hand() -> None:
    low, high = wilson(5, 10) or (0, 0)
    assert (low, high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    assert wilson(0, 0) is None
    assert wilson(0, 10) == (pytest.approx(0.0, abs=1e-9), pytest.approx(0.2775, abs=1e-4))


def test_the_interval_of_the_gain_is_newcombes() -> None:
    """Newcombe 1998, example (a): 56/70 against 48/80, method 10 gives 0.0524 to 0.3339."""
    low, high = Credit(70, 56, 80, 48).gain_interval or (0, 0)
    assert (low, high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))


def test_nothing_is_known_of_what_was_never_compared() -> None:
    assert Credit().rate is None
    only_with = Credit(4, 2)
    assert only_with.rate == 0.5
    assert (only_with.bare_rate, only_with.gain, only_with.gain_interval) == (None, None, None)


def test_trials_add_up_by_note() -> None:
    found = CreditBook(
        [NoteTrial(A, "g1", 4, 3, 4, 1), NoteTrial(A, "g2", 2, 0, 2, 2), NoteTrial(B, "g1", 2, 1)]
    ).credits()
    assert found[A] == Credit(6, 3, 6, 3, 0.75)
    assert found[A].gain == 0.0
    assert found[B] == Credit(2, 1, 0, 0, 0.25, 2, 1)


def test_attempts_with_nobody_beside_them_say_nothing_of_the_gain() -> None:
    """A note that helps, and was tried alone on tasks that nobody solves."""
    together = NoteTrial(A, "g1", 10, 9, 10, 8)
    alone = [NoteTrial(A, f"hard {n}", 10, 1) for n in range(10)]
    for order in ([together, *alone], [*alone, together]):
        found = CreditBook(order).credits()[A]
        assert (found.rows, found.wins, found.rate) == (110, 19, pytest.approx(19 / 110))
        assert found.gain == pytest.approx(0.1)
        assert found.gain_interval == Credit(10, 9, 10, 8).gain_interval
        assert found.compared == 10
