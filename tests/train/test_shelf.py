"""What the critic said of rows when they were fresh: kept while they can be drawn, and saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recollect.train.credit import Credit
from recollect.train.shelf import Shelf
from recollect.types import TrajectoryId


def made(number: int) -> Credit:
    length = 1 + number % 3
    values, raw = (np.random.default_rng([number, n]).random(length, "f4") for n in range(2))
    return Credit(values, values + raw, raw, raw, number / 7)


def test_rows_that_are_too_old_are_let_go() -> None:
    shelf = Shelf(max_age=4)
    for version in range(0, 10, 2):
        shelf.put({TrajectoryId(f"row-{version}"): made(version)}, version)
    assert [shelf.get(TrajectoryId(f"row-{v}")) is not None for v in range(0, 10, 2)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert shelf.get(TrajectoryId("unheard-of")) is None


def test_it_comes_back_bit_for_bit(tmp_path: Path) -> None:
    for count in (0, 1, 7):
        shelf, other = Shelf(max_age=100), Shelf(max_age=100)
        for number in range(count):
            shelf.put({TrajectoryId(f"row-{number}"): made(number)}, number)
        shelf.save(tmp_path)
        other.restore(tmp_path)
        assert len(other) == count
        for number in range(count):
            one, two = (s.get(TrajectoryId(f"row-{number}")) for s in (shelf, other))
            assert one is not None
            assert two is not None
            for name in ("values", "returns", "raw"):
                assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
            assert one.error == two.error
        # Ages count on as before.
        other.put({}, 100 + count)
        shelf.put({}, 100 + count)
        assert len(other) == len(shelf)


def test_a_checkpoint_without_a_shelf_gives_an_empty_one(tmp_path: Path) -> None:
    """critic.at_use was changed to stored since: what is missing is computed."""
    shelf = Shelf(max_age=4)
    shelf.restore(tmp_path)
    assert len(shelf) == 0
