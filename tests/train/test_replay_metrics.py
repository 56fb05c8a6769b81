from __future__ import annotations

import math

import pytest

from recollect.replay.book import Result
from recollect.replay.eviction import counted_bytes
from recollect.replay.pick import Pick
from recollect.replay.policy import Amounts
from recollect.train.batch import Batch
from recollect.train.drawn import Drawn
from recollect.train.replay_metrics import replay_metrics
from recollect.train.replayed import Ratios, Replayed, RowUse
from recollect.train.report import UpdateReport
from recollect.train.totals import Totals
from recollect.types import GroupId
from replay.pools import TASKS, Plant, make_replayer, planted, trajectory
from telemetry.naming import undocumented


def pick(slot: int, mode: str, age: int, group: str = "g") -> Pick:
    return Pick(slot, trajectory(f"row-{slot}", Plant()), GroupId(group), mode, age, 1.0, "test")


def report(replayed: Replayed | None = None, loss: float = 0.5) -> UpdateReport:
    return UpdateReport(loss, 1.0, 0.1, 8, 80, 1, 0, None, replayed)


def test_nothing_without_a_replayer() -> None:
    assert replay_metrics(None, Drawn(), Batch(()), report(), Totals()) == {}


def test_a_step_that_replays() -> None:
    grouped = (pick(0, "mix", 2), pick(1, "repair", 4, "a"), pick(2, "repair", 4, "a"))
    drawn = Drawn(grouped, ((pick(4, "buffer", 8),), (pick(3, "buffer", 2),)))
    assert [each.slot for each in drawn.every] == [0, 1, 2, 3, 4]
    use = RowUse(grouped[0], 1.0, Ratios(1.1, 1.0, 2.0, 3.0, 0.9), 0.25, 0.5, 1)
    replayed = Replayed((use,), Ratios(1.2, 1.0, 2.5, 4.0, 0.8), 0.125, 0.2, 0.01)
    totals = Totals(rows=40, trained=50, replayed=7, saved=3)
    with planted(Plant(used=[1, 2]), Plant(), Plant(TASKS[1])) as store:
        replayer = make_replayer(store, Amounts(mix_ratio=0.5))
        replayer.begin(5, 10, 3)
        replayer.finish([Result(TASKS[0].key, 1, 4), Result(TASKS[1].key, 4, 4)], [])
        found = replay_metrics(replayer, drawn, Batch((), push=-1.5), report(replayed), totals)
        held = float(counted_bytes(replayer.pool).sum())
    assert undocumented(found) == []
    assert found.pop("replay/pool_bytes") == held
    assert found.pop("replay/uses_mean") == pytest.approx(2 / 3)
    assert found.pop("replay/loss_fresh") == pytest.approx(0.3)
    assert found == {
        "replay/pool_rows": 3,
        "replay/eligible": 3,
        "replay/retired": 0,
        "replay/ratio": 1.25,
        "replay/saved": 3,
        "replay/push": -1.5,
        "replay/bucket/0.2-0.3": 1,
        "replay/bucket/1": 1,
        "replay/draws": 5,
        "replay/uses": 1,
        "replay/dropped": 4,
        "replay/mixed": 1,
        "replay/repaired": 1,
        "replay/buffered": 2,
        "replay/age_mean": 4,
        "replay/age_max": 8,
        "replay/uses_max": 2,
        "replay/loss": 0.2,
        "replay/ratio_mean": 1.2,
        "replay/ratio_p50": 1.0,
        "replay/ratio_p99": 2.5,
        "replay/ratio_max": 4.0,
        "replay/ess": 0.8,
        "replay/clip_share": 0.125,
        "replay/kl": 0.01,
        "replay/pool_age_mean": 3,
        "replay/pool_age_max": 3,
        "replay/used_total": 7,
    }


def test_empty_cases_are_absent_never_nan() -> None:
    with planted() as store:
        replayer = make_replayer(store, Amounts(mix_ratio=0.5))
        replayer.begin(1, 10, 0)
        totals = Totals(rows=8, trained=8)
        found = replay_metrics(replayer, Drawn(), Batch(()), report(), totals)
    assert not any(math.isnan(value) for value in found.values())
    assert "replay/ess" not in found
    assert "replay/age_mean" not in found
    assert found["replay/draws"] == 0
