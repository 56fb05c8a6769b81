"""Replay in the training loop: what is drawn is what trains, and what trains is written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.proof.traces import trace
from recollect.replay.pool import Pool
from recollect.store import open_reader
from recollect.store.base import StoreReader
from recollect.store.records import Query
from recollect.telemetry.reading import read_metrics
from recollect.train.batch import Batch
from recollect.train.loop import train
from recollect.train.replayed import RowUse
from recollect.train.report import UpdateReport
from recollect.types import RunId, group_id
from telemetry.naming import undocumented

from .replays import EVERYTHING
from .small import WORLDS, make_config, open_run, run_to_end

STEPS = 6
SHORT = (f"run.steps={STEPS}", "eval.every=0", "checkpoint.every=0")
RUN = RunId("run")


class Watched:
    """What the learner was given and what it said, step by step."""

    def __init__(self) -> None:
        self.batches: dict[int, Batch] = {}
        self.reports: dict[int, UpdateReport] = {}

    def uses(self, step: int) -> tuple[RowUse, ...]:
        replayed = self.reports[step].replayed
        return replayed.uses if replayed else ()


def watched_run(folder: Path, model: Path, *flags: str, world: str = "Letters") -> Watched:
    config = make_config(model, *SHORT, *flags, world=f"{WORLDS}:{world}")
    seen = Watched()
    with open_run(folder, config) as session:
        update = session.learner.update

        def watch(batch: Batch, step: int, *rest: Any) -> UpdateReport:
            seen.batches[step] = batch
            seen.reports[step] = update(batch, step, *rest)
            return seen.reports[step]

        session.learner.update = watch  # type: ignore[method-assign]
        assert train(session).step == STEPS
    return seen


@contextmanager
def store_of(folder: Path) -> Iterator[StoreReader]:
    with open_reader(folder / "store.db") as store:
        assert list(store.verify()) == []
        yield store


MODES = {
    "mix": ("replay.modes=[mix]",),
    "repair": ("replay.modes=[repair]",),
    "buffer": ("replay.modes=[buffer]", "replay.buffer_rows=4"),
    "all": EVERYTHING,
    "all at two epochs": (*EVERYTHING, "train.epochs=2", "train.minibatches=2"),
    "all recomputed": (*EVERYTHING, "correction.old_logprobs=recomputed"),
    "all of the likeliest": (*EVERYTHING, "draw.choice=likeliest"),
    "all that are trusted": (*EVERYTHING, "correction.drop_above=1.05"),
    "baseline": ("replay.modes=[mix]", "replay.participation=baseline"),
    "tasks only": ("replay.modes=[mix]", "replay.participation=off"),
    "retirement only": ("replay.retire=true", "replay.retest_steps=2"),
    "budgets": (*EVERYTHING, "pool.rows_per_task=2", "pool.max_rows=12", "pool.max_bytes=40000"),
}


@pytest.fixture(scope="module", params=MODES)
def done(
    request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Watched]:
    """A run in each mode."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    flags = MODES[request.param]
    # Few tasks, so that they come again; a learning rate at which ratios move.
    few = ("environment.tasks=4", "train.learning_rate=0.02")
    return request.param, folder, watched_run(folder, model, *few, *flags)


def test_every_draw_and_every_use_is_in_the_ledger(done: tuple[str, Path, Watched]) -> None:
    name, folder, seen = done
    with store_of(folder) as store:
        total = 0
        for step in range(1, STEPS + 1):
            draws = {draw.slot: draw for draw in store.draws(RUN, step)}
            uses = store.uses(RUN, step)
            applied = {use.pick.slot: use for use in seen.uses(step)}
            assert [use.slot for use in uses] == sorted(applied)
            for use in uses:
                told = applied[use.slot]
                assert use.trajectory == told.pick.trajectory.id == draws[use.slot].trajectory
                assert use.epochs == told.updates
                assert use.ratio_mean == told.ratios.mean
                assert use.ratio_p99 == told.ratios.p99
                assert use.ess == told.ratios.ess
                assert (use.clip_share, use.loss_share) == (told.clip_share, told.loss_share)
            batch = seen.batches[step]
            rows = [*batch.rows, *(row for update in batch.extra for row in update)]
            picks = [row.pick for row in rows if row.pick is not None]
            for pick in picks:
                assert draws[pick.slot] == pick.draw(RUN, step)
            assert len({draw.trajectory for draw in draws.values()}) == len(draws)
            # What was drawn was there before the step, and not too often used.
            ids = [draw.trajectory for draw in draws.values()]
            assert all(row.step < step for row in store.get(ids))
            total += len(uses)
        if name not in ("baseline", "tasks only", "retirement only"):
            assert total > 0, "nothing was replayed"
        else:
            assert total == 0


def test_uses_of_the_pool_are_those_of_the_ledger(done: tuple[str, Path, Watched]) -> None:
    _, folder, seen = done
    with store_of(folder) as store:
        applied = Counter(
            use.pick.trajectory.id for step in seen.reports for use in seen.uses(step)
        )
        pool = Pool(store)
        ids = pool.ids(range(len(pool)))
        for id_, count, last in zip(ids, pool.uses, pool.last_use, strict=True):
            assert count == applied[id_]
            assert (last >= 0) == bool(count)
        rows = store.rows(Query(run=RUN, status=None), limit=1000).rows
        assert sum(row.uses for row in rows) == sum(applied.values())


def test_scores_are_what_was_applied(done: tuple[str, Path, Watched]) -> None:
    name, folder, seen = done
    total = 0
    with store_of(folder) as store:
        for step, batch in seen.batches.items():
            scores = {score.trajectory: score for score in store.scores(RUN, step)}
            fresh = {row.trajectory.id: row for row in batch.rows if row.pick is None}
            used = {use.pick.trajectory.id: use for use in seen.uses(step)}
            drawn = {draw.trajectory for draw in store.draws(RUN, step)}
            left_out = set(scores) - set(fresh) - set(used)
            assert left_out <= drawn
            total += len(left_out)
            for id_ in left_out:
                ratio = scores[id_].ratio
                assert ratio is not None
                assert ratio > 1.05
                again = [draw for draw in store.draws(RUN, trajectory=id_) if draw.step > step]
                assert not again, "a row that had drifted was drawn again"
            for id_, row in fresh.items():
                assert scores[id_].advantage == pytest.approx(row.advantage)
                assert scores[id_].ess is None
            for id_, use in used.items():
                assert scores[id_].advantage == pytest.approx(use.advantage)
                assert scores[id_].ess == use.ratios.ess
                assert scores[id_].ratio == use.ratios.p99
    assert bool(total) == (name == "all that are trusted"), f"{total} rows were left out"


def test_groups_and_advantages(done: tuple[str, Path, Watched]) -> None:
    """Of every group, stored rows included, the advantages of the rows sum to zero."""
    name, _, seen = done
    for step, batch in seen.batches.items():
        sums: Counter[str] = Counter()
        rows: Counter[str] = Counter()
        for row in batch.rows:
            group = row.trajectory.group if row.pick is None else row.pick.group
            assert group == group_id(RUN, step, row.trajectory.task)
            sums[group] += row.advantage
            rows[group] += 1
        if name == "baseline":
            assert batch.push == pytest.approx(sum(sums.values()), abs=1e-6)
            continue
        assert all(abs(each) < 1e-6 for each in sums.values())
        if name in ("mix", "tasks only", "retirement only"):
            assert set(rows.values()) == {4}
    if name == "baseline":
        assert any(batch.push < 0 for batch in seen.batches.values())


def test_metrics(done: tuple[str, Path, Watched]) -> None:
    name, folder, seen = done
    lines = read_metrics(folder).steps
    trained = generated = 0
    with store_of(folder) as store:
        for line in lines:
            assert undocumented(line.metrics) == []
            values, uses = line.metrics, seen.uses(line.step)
            assert all(np.isfinite(value) for value in values.values())
            assert values["replay/draws"] == len(store.draws(RUN, line.step))
            assert values["replay/uses"] == len(uses)
            assert values["replay/dropped"] == values["replay/draws"] - len(uses)
            reasons = Counter(d.reason.split(":")[0] for d in store.draws(RUN, line.step))
            assert values["replay/mixed"] == reasons["mix"]
            assert values["replay/buffered"] == reasons["buffer"]
            report = seen.reports[line.step]
            trained += report.rows
            generated += sum(row.pick is None for row in seen.batches[line.step].rows)
            assert values["replay/ratio"] == pytest.approx(trained / generated)
            if report.replayed is not None:
                assert values["replay/loss"] == report.replayed.loss
                assert values["replay/ess"] == report.replayed.ratios.ess
                whole = values["replay/loss"] + values["replay/loss_fresh"]
                assert whole == pytest.approx(values["train/loss"])
            else:
                assert "replay/ess" not in values
    if name == "mix":
        assert lines[-1].metrics["replay/saved"] == sum(
            line.metrics["replay/mixed"] for line in lines
        )
        assert generated == 8 * STEPS - lines[-1].metrics["replay/saved"]


# -- off ----------------------------------------------------------------------------------


def test_off_is_a_run_without_any_replayer(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other settings of replay do nothing, and the code of replay is never reached."""
    run_to_end(tmp_path / "a" / "run", make_config(model, *SHORT))
    flags = ("pool.max_uses=1", "draw.choice=random", "correction.kind=shape", "pool.max_rows=3")

    def nothing(*anything: object, **named: object) -> None:
        raise AssertionError("there is nothing to replay")

    monkeypatch.setattr("recollect.train.replaying.Replayer", nothing)
    monkeypatch.setattr("recollect.train.learner.replayed_losses", nothing)
    monkeypatch.setattr("recollect.train.loop.left_out_scores", lambda *anything: [])
    run_to_end(tmp_path / "b" / "run", make_config(model, *SHORT, *flags))
    one, two = trace(tmp_path / "a" / "run"), trace(tmp_path / "b" / "run")
    assert one["metrics"] == two["metrics"]
    assert one["store"] == two["store"]
    assert one["checkpoint"]["model.safetensors"] == two["checkpoint"]["model.safetensors"]
    assert not any(key.startswith("replay/") for line in one["metrics"] for key in line["metrics"])


def test_a_replayer_that_never_begins_changes_nothing(model: Path, tmp_path: Path) -> None:
    run_to_end(tmp_path / "a" / "run", make_config(model, *SHORT))
    waiting = (*EVERYTHING, "replay.start_success=1")  # which the policy never reaches
    run_to_end(tmp_path / "b" / "run", make_config(model, *SHORT, *waiting))
    one, two = trace(tmp_path / "a" / "run"), trace(tmp_path / "b" / "run")
    assert one["store"]["rows"] == two["store"]["rows"]
    assert one["checkpoint"]["model.safetensors"] == two["checkpoint"]["model.safetensors"]
    for mine, other in zip(one["metrics"], two["metrics"], strict=True):
        theirs = {k: v for k, v in other["metrics"].items() if not k.startswith("replay/")}
        assert mine["metrics"] == theirs


# -- when it begins, what it keeps --------------------------------------------------------


def first_draw(folder: Path) -> int | None:
    lines = read_metrics(folder).steps
    return next((line.step for line in lines if line.metrics["replay/draws"]), None)


@pytest.mark.parametrize(
    ("flag", "step"),
    [
        ("replay.start_rows=17", 4),  # eight rows a step: 24 are there when step 4 begins
        ("replay.start_progress=0.5", 4),
        ("replay.start_success=0", 2),
        ("replay.start_rows=1", 2),
    ],
)
def test_triggers(model: Path, tmp_path: Path, flag: str, step: int) -> None:
    watched_run(tmp_path / "run", model, "replay.modes=[buffer]", flag)
    assert first_draw(tmp_path / "run") == step


def test_limits_hold_throughout(model: Path, tmp_path: Path) -> None:
    flags = ("environment.tasks=4", *EVERYTHING, "pool.max_uses=1", "pool.max_age=3")
    watched_run(tmp_path / "run", model, *flags)
    with store_of(tmp_path / "run") as store:
        rows = store.rows(Query(run=RUN, status=None), limit=1000).rows
        assert max(row.uses for row in rows) == 1
        draws = [draw for step in range(STEPS + 1) for draw in store.draws(RUN, step)]
        assert max(draw.age for draw in draws) <= 3


def test_what_is_kept(model: Path, tmp_path: Path) -> None:
    flags = ("replay.modes=[buffer]", "pool.keep=successes", "pool.lower=0", "pool.upper=1")
    watched_run(tmp_path / "run", model, *flags)
    with store_of(tmp_path / "run") as store:
        live = store.rows(Query(run=RUN), limit=1000).rows
        assert live
        assert all(row.success for row in live)
        every = store.rows(Query(run=RUN, status=None), limit=1000).rows
        wins: dict[str, list[bool]] = {}
        for row in every:
            wins.setdefault(row.group, []).append(row.success)
        mixed = {group for group, found in wins.items() if len(set(found)) == 2}
        assert {row.id for row in live} == {r.id for r in every if r.group in mixed and r.success}


def test_retired_tasks_rest_until_their_re_test(model: Path, tmp_path: Path) -> None:
    """In a world where everything succeeds, every task retires after its first group."""
    flags = ("replay.retire=true", "replay.retest_steps=3", "environment.tasks=8")
    watched_run(tmp_path / "run", model, *flags, world="Same")
    with store_of(tmp_path / "run") as store:
        tasks = [{group.task for group in store.groups(RUN, step)} for step in range(1, STEPS + 1)]
    assert len(set.union(*tasks[:3])) == 6, "nobody twice"
    # Re-tests are due three steps later, and leave half of a step to the others.
    assert len(tasks[3] & tasks[0]) == 1
    assert len(set.union(*tasks[:5])) == 8
    metrics = read_metrics(tmp_path / "run").steps[-1].metrics
    assert metrics["replay/retired"] == 8


# -- repeatable ---------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_replay(model: Path, tmp_path: Path) -> None:
    few = ("environment.tasks=4",)
    for name in "ab":
        run_to_end(tmp_path / name / "run", make_config(model, *SHORT, *few, *EVERYTHING))
    assert trace(tmp_path / "a" / "run") == trace(tmp_path / "b" / "run")
