from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from recollect.rollout.collector import Collected
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.telemetry.finite import counted_metrics
from recollect.train.metrics import deviation, mean, step_metrics
from recollect.train.report import Drift, UpdateReport
from recollect.train.scoring import score
from recollect.train.totals import Totals
from recollect.types import GroupId, RunId, StopReason, Task, TrajectoryId
from telemetry.naming import undocumented

from .rows import make_row

TASKS = [Task("env", "a", domain="air line"), Task("env", "b", domain="shop")]
REPORT = UpdateReport(
    loss=0.25, grad_norm=2.0, learning_rate=1e-3, rows=2, tokens=5, optimizer_steps=1, skipped=0,
    drift=Drift(0.01, 1.5, 0.25, 1e-6),
)  # fmt: skip
SECONDS = {"plan": 0.5, "collect": 1.0, "update": 0.5}


def rows():
    made = [
        make_row([1, 2, 3, 4], [False, True, True, True], "r0", "g0", 0.0),
        make_row([1, 2, 3], [False, True, True], "r1", "g0", 1.0),
        make_row([1, 2], [False, True], "r2", "g1", 0.5),
        make_row([1, 2], [False, True], "r3", "g1", 0.5),
    ]
    keys = [TASKS[0].key] * 2 + [TASKS[1].key] * 2
    made = [replace(row, task=key) for row, key in zip(made, keys, strict=True)]
    made[3] = replace(made[3], stop=StopReason.TOKEN_LIMIT)
    made[0] = replace(made[0], entropies=np.array([1.0, 2.0, 3.0], "f4"))
    return tuple(made)


def failure() -> Failure:
    run = RunId("run")
    request = Request(TrajectoryId("r4"), TASKS[0], run, 1, GroupId("g0"), 0, 0, 2)
    return Failure(request, "respond", "ValueError: no")


def metrics_of(collected: Collected, report: UpdateReport = REPORT, totals: Totals | None = None):
    batch = score(collected.trajectories, "grpo", [0.0] * len(collected.trajectories))
    found = step_metrics(TASKS, collected, batch, report, SECONDS, totals or Totals(104, 3, 1))
    assert undocumented(found) == []
    return found


def test_by_hand() -> None:
    found = metrics_of(Collected(rows(), (failure(),), turns=6))
    assert found.pop("perf/peak_memory") > 1e7  # of this process, and only grows
    expected = {
        "reward/mean": 0.5,
        "reward/std": math.sqrt(0.125),
        "reward/success": 0.25,
        "reward/dead_groups": 0.5,
        "reward/mean/air_line": 0.5,
        "reward/success/air_line": 0.5,
        "reward/mean/shop": 0.5,
        "reward/success/shop": 0.0,
        "rollout/rows": 4,
        "rollout/rows_total": 104,
        "rollout/failed": 1,
        "rollout/tokens": 11,
        "rollout/sampled_tokens": 7,
        "rollout/turns": 1.5,
        "rollout/length": 7 / 4,
        "rollout/truncated": 0.25,
        "train/loss": 0.25,
        "train/grad_norm": 2.0,
        "train/learning_rate": 1e-3,
        "train/tokens": 5,
        "train/rows": 2,
        "train/skipped_steps": 0,
        "policy/entropy": (6 + 4 * 0.5) / 7,
        "policy/kl": 0.01,
        "policy/ratio_max": 1.5,
        "policy/clip_share": 0.25,
        "policy/logprob_diff": 1e-6,
        "time/plan": 0.5,
        "time/collect": 1.0,
        "time/update": 0.5,
        "time/step": 2.0,
        "perf/rows_per_s": 2.0,
        "perf/tokens_per_s": 3.5,
        "health/failed_episodes": 3,
        "health/bad_steps": 1,
    }
    assert found == pytest.approx(expected)


def test_what_was_not_measured_is_left_out() -> None:
    still = replace(REPORT, loss=0.0, grad_norm=0.0, rows=0, tokens=0, drift=None)
    found = metrics_of(Collected(rows(), (), 4), still)
    assert "policy/kl" not in found
    assert "policy/entropy" in found  # of the rows, trained on or not
    assert counted_metrics(found)["health/not_finite"] == 0


def test_a_refused_update_is_seen() -> None:
    refused = replace(REPORT, loss=math.nan, grad_norm=math.nan, skipped=1, drift=None)
    found = metrics_of(Collected(rows(), (), 4), refused)
    assert found["train/skipped_steps"] == 1
    assert counted_metrics(found)["health/not_finite"] == 2


def test_a_step_of_failures_only_is_seen() -> None:
    found = metrics_of(Collected((), (failure(), failure()), 0), replace(REPORT, drift=None))
    assert found["rollout/failed"] == 2
    assert math.isnan(found["reward/mean"])
    assert counted_metrics(found)["health/not_finite"] == 4


def test_no_time_at_all() -> None:
    collected = Collected(rows(), (), 4)
    batch = score(collected.trajectories, "grpo", [0.0] * 4)
    found = step_metrics(TASKS, collected, batch, REPORT, {"plan": 0.0}, Totals())
    assert found["perf/rows_per_s"] == 0


def test_absurd_numbers_make_no_trouble() -> None:
    assert mean([1.7e308, 1.7e308]) == math.inf
    assert not math.isfinite(deviation([1.7e308, -1.7e308]))
    assert math.isnan(mean([]))
    assert math.isnan(deviation([]))
    assert deviation([1.0, 3.0]) == 1.0
