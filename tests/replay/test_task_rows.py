from __future__ import annotations

import numpy as np
import pytest

from recollect.replay import task_rows
from recollect.replay.pool import Pool
from recollect.replay.task_rows import TaskRows

from .feed import Feed


@pytest.mark.parametrize("radix", [2, 15])
def test_rows_of_tasks_whatever_happens(radix: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted in one pass and in two, with late rows among them, after rows left and came back."""
    monkeypatch.setattr(task_rows, "_RADIX", radix)
    monkeypatch.setattr(task_rows, "_LEAST", 8)
    rng, feed = np.random.default_rng(0), Feed(9)
    pool = Pool(feed)  # type: ignore[arg-type]
    found = TaskRows(pool)
    assert [part.tolist() for part in found.of(np.array([3, 5]))] == [[], [0, 0]]
    for number in range(12):
        feed.add(rng, int(rng.integers(1, 9)), 1, 1)
        if number % 4 == 3:
            feed.set_live(rng.integers(0, len(feed), 3), live=bool(number % 8 == 3))
        pool.refresh()
        asked = rng.choice(np.arange(1, 15), 5, replace=False)  # some of which are no tasks
        rows, starts = found.of(asked)
        parts = [part.tolist() for part in np.split(rows, starts[1:])]
        tasks = pool.facts["task"]
        assert parts == [np.flatnonzero(tasks == task).tolist() for task in asked]
        assert found.of(np.empty(0, np.int64))[0].size == 0
