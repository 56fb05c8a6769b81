"""Counts per group and per task, for every size up to 64 and every share in hundredths."""

from __future__ import annotations

from fractions import Fraction

import pytest

from recollect.config.schema.notes import share_of
from recollect.notes.allocation import (
    guided_count,
    guided_rows,
    keeps_alone,
    kept_count,
    kept_tasks,
)
from recollect.types import TaskKey

SHARES = [n / 100 for n in range(101)]
KEYS = [TaskKey(f"task-{n}") for n in range(64)]


def test_counts_follow_the_formula_for_all_sizes_and_shares() -> None:
    for rows in range(65):
        for hundredths, share in enumerate(SHARES):
            wanted = rows * hundredths // 100
            assert guided_count(rows, "mixed", share) == wanted, (rows, share)
            assert kept_count(rows, "hybrid", share) == wanted, (rows, share)
            assert wanted <= rows * Fraction(hundredths, 100) < wanted + 1


@pytest.mark.parametrize("share", [1 / 3, 2 / 3, 0.1, 0.7, 0.999, 1e-9])
def test_other_shares_are_taken_as_they_are_written(share: float) -> None:
    for rows in range(65):
        assert share_of(rows, share) == int(rows * Fraction(repr(share)))


def test_the_golden_values() -> None:
    """Reference §8, 7: len 10, .29; n = 8, .5; n = 5, .5; and where floating point goes wrong."""
    assert kept_count(10, "hybrid", 0.29) == 2
    assert guided_count(8, "mixed", 0.5) == 4
    assert guided_count(5, "mixed", 0.5) == 2
    assert share_of(100, 0.29) == 29
    assert int(100 * 0.29) == 28


def test_the_other_modes_know_no_share() -> None:
    for rows in range(65):
        assert guided_count(rows, "bare", 0.5) == 0
        assert guided_count(rows, "all", 0.5) == rows
        assert kept_count(rows, "keep", 0.5) == rows
        assert kept_count(rows, "strip", 0.5) == 0


def test_as_many_are_chosen_as_counted() -> None:
    for rows in range(0, 65, 3):
        for share in SHARES[::7]:
            chosen = guided_rows(rows, "mixed", share, 1, 2, KEYS[0])
            assert len(chosen) == guided_count(rows, "mixed", share)
            assert chosen <= set(range(rows))
            kept = kept_tasks(KEYS[:rows], "hybrid", share, 1, 2)
            assert len(kept) == kept_count(rows, "hybrid", share)
            assert kept <= set(KEYS[:rows])


def test_chance_decides_and_always_the_same_way() -> None:
    first = guided_rows(8, "mixed", 0.5, 1, 2, KEYS[0])
    assert first == guided_rows(8, "mixed", 0.5, 1, 2, KEYS[0])
    others = {guided_rows(8, "mixed", 0.5, 1, step, KEYS[0]) for step in range(30)}
    assert len(others) > 10
    counts = [sum(row in chosen for chosen in others) for row in range(8)]
    assert min(counts) > 0, "every row has its turn"
    assert len({kept_tasks(KEYS[:8], "hybrid", 0.5, 1, step) for step in range(30)}) > 10


def test_a_task_alone_keeps_with_the_same_chance() -> None:
    kept = sum(keeps_alone(key, "hybrid", 0.25, 3, step) for key in KEYS for step in range(20))
    assert 0.2 < kept / 1280 < 0.3
    assert keeps_alone(KEYS[0], "keep", 0.0, 3, 1)
    assert not keeps_alone(KEYS[0], "strip", 1.0, 3, 1)
