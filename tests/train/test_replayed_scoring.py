"""Fresh and stored rows of a group are scored together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.replay.pick import Pick
from recollect.train.batch import Batch
from recollect.train.scoring import as_stored, score
from recollect.trajectory import Trajectory
from recollect.types import GroupId

from .rows import make_row


def row(name: str, reward: float, group: str = "g") -> Trajectory:
    return make_row([1, 2, 3], [False, True, True], name, group, reward)


def pick(slot: int, reward: float = 1.0, group: str = "g", advantage: float | None = None) -> Pick:
    """A stored row: its own group was another one."""
    stored = row(f"stored-{slot}", reward, f"old-{slot}")
    return Pick(slot, stored, GroupId(group), "mix", 3, 0.5, "test", advantage=advantage)


def scored(
    fresh: Sequence[float], stored: Sequence[float] = (1.0,), estimator: str = "grpo", **how: bool
) -> Batch:
    rows = [row(f"fresh-{n}", reward) for n, reward in enumerate(fresh)]
    picks = [pick(n, reward) for n, reward in enumerate(stored)]
    return score(rows, estimator, [0.0] * (len(rows) + len(picks)), picks, **how)


@pytest.mark.parametrize("estimator", ["grpo", "dr_grpo", "rloo"])
@settings(max_examples=60, deadline=None)
@given(
    fresh=st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=9),
    stored=st.lists(st.sampled_from([0.5, 1.0]), min_size=1, max_size=3),
)
def test_a_mixed_group_sums_to_zero(
    estimator: str, fresh: list[float], stored: list[float]
) -> None:
    batch = scored(fresh, stored, estimator)
    assert sum(each.advantage for each in batch.rows) == pytest.approx(0, abs=1e-9)
    assert batch.push == 0.0
    assert [each.pick is not None for each in batch.rows] == [False] * len(fresh) + [True] * len(
        stored
    )


def test_stored_rows_join_the_group_they_were_picked_for() -> None:
    fresh = [row("a", 0.0, "g"), row("b", 0.0, "g"), row("c", 0.0, "h"), row("d", 1.0, "h")]
    batch = score(fresh, "dr_grpo", [0.0] * 5, [pick(0, 1.0, "g")])
    found = [each.advantage for each in batch.rows]
    # Beside the rows of its group, so that minibatches do not tear it from them.
    assert found == pytest.approx([-1 / 3, -1 / 3, 2 / 3, -0.5, 0.5])
    assert all(each.signal for each in batch.rows), "the dead group has come to life"


def test_penalties_come_off_stored_rows_too() -> None:
    fresh = [row("a", 1.0), row("b", 1.0)]
    batch = score(fresh, "dr_grpo", [0.0, 0.0, 0.6], [pick(0)])
    assert [each.advantage for each in batch.rows] == pytest.approx([0.2, 0.2, -0.4])
    with pytest.raises(ValueError, match="zip"):
        score(fresh, "dr_grpo", [0.0, 0.0], [pick(0)])


def test_baseline_rows_shift_the_mean_and_stay_out() -> None:
    batch = scored([0.0] * 7, baseline_only=True)
    stored = batch.rows[-1]
    assert (stored.advantage, stored.signal) == (0.0, False)
    assert len(batch.training) == 7
    assert all(each.pick is None for each in batch.training)
    assert batch.push == pytest.approx(-2.475, abs=5e-4)
    trained = scored([0.0] * 7)
    assert [r.advantage for r in batch.rows[:7]] == [r.advantage for r in trained.rows[:7]]


def test_without_stored_rows_there_is_no_push() -> None:
    assert scored([0.0, 1.0], (), baseline_only=True).push == 0.0
    assert score([], "grpo", [], baseline_only=True).rows == ()


def test_pushes_of_several_groups_add_up() -> None:
    fresh = [row(f"{g}-{n}", 0.0, g) for g in "gh" for n in range(3)]
    batch = score(fresh, "dr_grpo", [0.0] * 8, [pick(0), pick(1, 1.0, "h")], baseline_only=True)
    assert batch.push == pytest.approx(-2 * 0.75)


def test_a_group_of_stored_rows_alone_has_no_say() -> None:
    """All of its fresh episodes failed: nothing to compare with, and no raw reward either."""
    batch = scored([])
    assert [(each.advantage, each.signal) for each in batch.rows] == [(0.0, False)]


def test_extra_updates_keep_the_advantages_their_rows_had() -> None:
    first, second = as_stored([[pick(0, advantage=-1.5), pick(1, advantage=0.5)], [pick(2)]])
    assert [each.advantage for each in first] == [-1.5, 0.5]
    assert [each.advantage for each in second] == [0.0]
    assert all(each.signal and each.pick is not None for each in (*first, *second))
    assert all(math.isfinite(each.advantage) for each in (*first, *second))
