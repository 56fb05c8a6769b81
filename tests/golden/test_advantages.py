"""Reference 4.4: n = 8, one replayed success, s fresh successes of 7."""

from __future__ import annotations

import pytest

from recollect.replay.pick import Pick
from recollect.train.batch import Batch
from recollect.train.scoring import score
from recollect.types import GroupId
from train.rows import make_row

# s: A(fresh success), A(fresh failure), A(replay), each normalised by the sample deviation.
TABLE: list[tuple[int, float | None, float | None, float]] = [
    (0, None, -0.354, 2.475),
    (1, 1.620, -0.540, 1.620),
    (2, 1.208, -0.725, 1.208),
    (3, 0.935, -0.935, 0.935),
    (4, 0.725, -1.208, 0.725),
    (5, 0.540, -1.620, 0.540),
    (6, 0.354, -2.475, 0.354),
    (7, 0.0, None, 0.0),
]


def mixed(successes: int, estimator: str = "grpo", baseline_only: bool = False) -> Batch:
    rewards = [1.0] * successes + [0.0] * (7 - successes)
    fresh = [make_row([1, 2], [False, True], f"f{n}", "g", r) for n, r in enumerate(rewards)]
    stored = make_row([1, 2], [False, True], "stored", "old", 1.0)
    pick = Pick(0, stored, GroupId("g"), "mix", 1, 1.0, "golden")
    return score(fresh, estimator, [0.0] * 8, [pick], baseline_only)


@pytest.mark.parametrize(("successes", "success", "failure", "replayed"), TABLE)
def test_trained(
    successes: int, success: float | None, failure: float | None, replayed: float
) -> None:
    batch = mixed(successes)
    found = [row.advantage for row in batch.rows]
    if success is not None:
        assert found[0] == pytest.approx(success, abs=6e-4)
    if failure is not None:
        assert found[6] == pytest.approx(failure, abs=6e-4)
    assert found[7] == pytest.approx(replayed, abs=6e-4)
    assert found[7] == pytest.approx(-sum(found[:7]), abs=1e-9)
    assert len(batch.training) == (0 if successes == 7 else 8)


@pytest.mark.parametrize(("successes", "success", "failure", "replayed"), TABLE)
def test_baseline_only(
    successes: int, success: float | None, failure: float | None, replayed: float
) -> None:
    batch = mixed(successes, baseline_only=True)
    assert batch.rows[7].advantage == 0.0
    assert not batch.rows[7].signal
    assert batch.push == pytest.approx(-replayed, abs=6e-4)
    # Fresh rows are scored as if it trained.
    together = mixed(successes)
    assert [r.advantage for r in batch.rows[:7]] == [r.advantage for r in together.rows[:7]]


@pytest.mark.parametrize("successes", range(8))
def test_without_the_deviation(successes: int) -> None:
    found = [row.advantage for row in mixed(successes, "dr_grpo").rows]
    mean = (successes + 1) / 8
    assert found[:successes] == pytest.approx([1 - mean] * successes)
    assert found[successes:7] == pytest.approx([-mean] * (7 - successes))
    assert found[7] == pytest.approx(1 - mean)
