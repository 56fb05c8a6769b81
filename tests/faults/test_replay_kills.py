"""Exact resume of runs that replay: after kill -9 the same draws, the same uses, the same weights.

Every row that an optimiser step applied is in the ledger once, whenever the run was killed. The
children are real processes that run the real command line.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.proof.logical import all_rows
from recollect.proof.traces import trace
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.reading import read_metrics
from recollect.types import RunId, Status
from train.replays import EVERYTHING

from .killing import Trace, Undisturbed, kill_and_compare

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

STEPS = 7
WORLD = f"{Path(__file__).parents[1] / 'train' / 'replay_worlds.py'}:Easy"
RUN = RunId("run")
BASE = (
    f"run.steps={STEPS}",
    "checkpoint.every=3",
    "eval.every=0",
    "run.name=run",
    "environment.tasks=5",
    "train.learning_rate=0.02",
)
# Evictions and retirement are undone and done again as well; fractions of tasks are carried.
FULL = (
    *BASE,
    *EVERYTHING,
    f"environment.name={WORLD}",
    "replay.mix_ratio=0.3",
    "replay.start_success=0.1",
    "replay.retire=true",
    "replay.retire_rows=1",
    "rollout.tasks_per_step=4",
    "rollout.rows_per_task=2",
    "replay.retest_steps=2",
    "pool.cooldown=1",
    "pool.rows_per_task=6",
    "pool.max_rows=24",
    "draw.buckets=gaussian",
    "draw.half_life=4",
    "draw.max_per_task=2",
)
CHOSEN = (
    *BASE,
    *EVERYTHING,
    "replay.modes=[repair,buffer]",
    "environment.tasks=2",
    "rollout.rows_per_task=2",
    "draw.choice=likeliest",
    "correction.kind=shape",
    "correction.drop_above=3",
    "correction.old_logprobs=recomputed",
    "pool.min_ess=0.1",
    "train.epochs=2",
    "train.minibatches=2",
)


def check_ledger(folder: Path) -> int:
    """Uses in the ledger are those applied, row by row and step by step; returns how many."""
    applied = {line.step: line.metrics["replay/uses"] for line in read_metrics(folder).steps}
    drawn = {line.step: line.metrics["replay/draws"] for line in read_metrics(folder).steps}
    assert list(applied) == list(range(1, STEPS + 1))
    with open_reader(folder / "store.db") as store:
        total = 0
        for step, count in applied.items():
            draws, uses = store.draws(RUN, step), store.uses(RUN, step)
            assert len(uses) == len({use.slot for use in uses}) == count
            assert len(draws) == drawn[step]
            slots = {draw.slot: draw.trajectory for draw in draws}
            assert all(slots[use.slot] == use.trajectory for use in uses)
            total += len(uses)
        rows = all_rows(store, Query(run=RUN, status=None))
        assert sum(row.uses for row in rows) == total
        return total


def checked_trace(folder: Path) -> Trace:
    assert check_ledger(folder) > 10, "too little is replayed to mean anything"
    return trace(folder)


def kill_and_check(
    model: Path, folder: Path, flags: tuple[str, ...], kills: int, expected: Trace
) -> None:
    kill_and_compare(model, folder, flags, kills, expected, checked_trace, "replay kills")


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(model, tmp_path_factory.mktemp("undisturbed"), checked_trace)


def test_the_runs_to_be_killed_do_everything(undisturbed: Undisturbed) -> None:
    draws = [draw for flags in (FULL, CHOSEN) for draw in undisturbed[flags]["store"]["draws"]]
    assert {draw.reason.split(":")[0] for draw in draws} == {"mix", "repair", "buffer"}
    last = undisturbed[FULL]["metrics"][-1]["metrics"]
    assert last["replay/saved"] > 0
    retired = [line["metrics"]["replay/retired"] for line in undisturbed[FULL]["metrics"]]
    assert max(retired) > 0
    states = undisturbed[FULL]["store"]["in play"]
    assert {status for _, status, *_ in states} >= {Status.LIVE, Status.EVICTED}
    assert undisturbed[FULL]["store"]["scores"]


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.long)])
def test_killed_at_random_moments(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_check(model, tmp_path, FULL, kills, undisturbed[FULL])


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_with_rows_that_the_policy_chooses(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_check(model, tmp_path, CHOSEN, kills, undisturbed[CHOSEN])
