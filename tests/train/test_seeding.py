"""`pool.start_from`: a run that begins with the pool of an earlier one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from recollect.errors import NothingToStartFrom, SameRun, StoreMissing
from recollect.ledger import Run, Score
from recollect.replay.pool import Pool
from recollect.store import open_reader, open_store
from recollect.store.base import StoreReader
from recollect.store.records import Batch, Query
from recollect.telemetry.events import Event, StepFinished, Warned
from recollect.train.folder import RunFolder
from recollect.train.loop import train
from recollect.train.session import open_session
from recollect.types import RunId

from .damage import damage
from .small import Recorder, make_config, make_model, open_run, run_to_end

SHORT = ("run.steps=2", "eval.every=0", "checkpoint.every=0", "environment.tasks=4")
BUFFER = ("replay.modes=[buffer]", "replay.buffer_rows=4")


@pytest.fixture(scope="module")
def first(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    run_to_end(folder, make_config(model, *SHORT))
    return folder


def test_rows_scores_and_log_probs_are_taken_over(model: Path, first: Path, tmp_path: Path) -> None:
    config = make_config(model, *SHORT, *BUFFER, f"pool.start_from={first}")
    with open_run(tmp_path / "second", config) as session:
        assert session.replayer is not None
        pool = session.replayer.pool
        with open_reader(first / "store.db") as before:
            rows = before.rows(Query(), limit=1000).rows
            ids = [row.id for row in rows]
            assert pool.ids(range(len(pool))) == ids
            assert session.store.get(ids) == before.get(ids)
            assert pool.advantage.tolist() == pytest.approx([row.advantage for row in rows])
        # As if the earlier run had ended just before this one began.
        ages = pool.ages(0, session.run)
        assert ages.min() == 1
    run_to_end(tmp_path / "third", config)
    with open_reader(tmp_path / "third" / "store.db") as store:
        drawn = {draw.trajectory for draw in store.draws(RunId("third"), 1)}
        assert drawn, "nothing was drawn in the first step"
        assert drawn <= set(ids)
        assert list(store.verify()) == []


def test_a_pool_may_come_from_a_run_that_was_seeded_itself(
    model: Path, first: Path, tmp_path: Path
) -> None:
    run_to_end(tmp_path / "b", make_config(model, *SHORT, *BUFFER, f"pool.start_from={first}"))
    config = make_config(model, *SHORT, *BUFFER, f"pool.start_from={tmp_path / 'b'}")
    with open_run(tmp_path / "c", config) as session, open_reader(tmp_path / "b/store.db") as b:
        found = Pool(session.store)
        by_id = {row.id: row for row in b.rows(Query(), limit=1000).rows}
        for place, id_ in enumerate(found.ids(range(len(found)))):
            assert found.advantage[place] == pytest.approx(by_id[id_].advantage)
        # Two steps in each run; b has two updates on stored rows for each on fresh ones. What it
        # had inherited was sampled before it began.
        runs = np.array([found.runs[number] for number in found.facts["run"].tolist()])
        ages = found.ages(0, session.run)
        assert set(ages[runs == "b"].tolist()) == {3, 6}
        assert set(ages[runs == "first"].tolist()) == {7, 8}


def test_ages_are_those_of_the_beginning_however_often_a_run_begins(
    model: Path, first: Path, tmp_path: Path
) -> None:
    """It is killed before its first checkpoint, and begins with the same pool again."""
    config = make_config(model, *SHORT, *BUFFER, f"pool.start_from={first}")
    with open_run(tmp_path / "run", config) as session:
        before = Pool(session.store).ages(0, session.run).tolist()
    with open_session(RunFolder(tmp_path / "run"), {}) as session:
        assert Pool(session.store).ages(0, session.run).tolist() == before
        assert len(session.store.events(session.run, 0)) == 1


def test_a_run_that_begins_with_its_own_store_begins_as_often_as_it_must(
    model: Path, tmp_path: Path
) -> None:
    """It shares the store with the run before it, and is killed before its first checkpoint."""
    shared = f"store.path={tmp_path / 'pool.db'}"
    run_to_end(tmp_path / "a", make_config(model, *SHORT, shared))
    here = f"pool.start_from={tmp_path / 'a' / '..' / 'pool.db'}"  # spelt another way
    config = make_config(model, *SHORT, *BUFFER, shared, here)

    def then(event: Event) -> None:
        if isinstance(event, StepFinished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_end(tmp_path / "b", config, Recorder(then))
    with open_reader(tmp_path / "pool.db") as store:
        drawn = store.draws(RunId("b"), 1)
        noted = store.events(RunId("b"), 0)
        assert {store.row(draw.trajectory).run for draw in drawn} == {"a"}
    with open_session(RunFolder(tmp_path / "b"), {}) as session:
        assert train(session).step == 2
    with open_reader(tmp_path / "pool.db") as store:
        assert store.draws(RunId("b"), 1) == drawn
        assert store.events(RunId("b"), 0) == noted
        assert list(store.verify()) == []


def test_the_newest_score_is_that_of_the_later_run(first: Path, tmp_path: Path) -> None:
    """It may be at a smaller step: its score still counts."""
    with open_reader(first / "store.db") as before:
        row = before.get([before.rows(Query(), limit=1).rows[0].id])[0]
        runs, tasks = before.runs(), before.tasks()
    with open_store(tmp_path / "pool.db") as store:
        store.commit(Batch(runs=list(runs.values()), tasks=list(tasks.values())))
        store.commit(Batch(trajectories=[row], scores=[Score(row.run, 200, row.id, 1.0, 1.0)]))
        late = Score(RunId("late"), 5, row.id, -0.5, 0.5, ess=0.25, ratio=9.0)
        store.commit(Batch(runs=[Run(RunId("late"))], scores=[late]))
        pool = Pool(store)
        assert (pool.advantage[0], pool.ess[0], pool.ratio[0]) == (-0.5, 0.25, 9.0)
        assert list(store.verify()) == []


def test_damaged_rows_stay_behind_and_are_told(model: Path, first: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.db"
    shutil.copy(first / "store.db", earlier)
    bad = damage(earlier)
    recorder = Recorder()
    config = make_config(model, *SHORT, *BUFFER, f"pool.start_from={earlier}")
    run_to_end(tmp_path / "run", config, recorder)
    with open_reader(earlier) as before, open_reader(tmp_path / "run" / "store.db") as store:
        rows = before.rows(Query(), limit=1000).rows
        taken = {row.id for row in store.rows(Query(), limit=1000).rows if row.run == "first"}
        assert taken == {row.id for row in rows} - set(bad_ids(before))
        assert len(taken) == len(rows) - bad
        assert list(store.verify()) == []
    told = [event.text for event in recorder.events if isinstance(event, Warned)]
    assert len(told) == 1
    assert told[0].startswith(f"pool.start_from: {bad} stored rows could not be read")
    assert told[0].endswith(f"recollect pool verify --store {earlier}")


def bad_ids(reader: StoreReader) -> list[str]:
    return [finding.where.split()[1] for finding in reader.verify()]


def test_what_cannot_be_begun_with(model: Path, first: Path, tmp_path: Path) -> None:
    def start(folder: str, source: Path, other: Path = model) -> None:
        config = make_config(other, *SHORT, *BUFFER, f"pool.start_from={source}")
        run_to_end(tmp_path / folder, config)

    with pytest.raises(SameRun, match="another name"):
        start("first", first)
    with pytest.raises(StoreMissing):
        start("a", tmp_path / "nothing")
    open_store(tmp_path / "empty.db").close()
    with pytest.raises(NothingToStartFrom, match="no live rows"):
        start("b", tmp_path / "empty.db")
    make_model(tmp_path / "other")
    template = tmp_path / "other" / "chat_template.jinja"
    template.write_text(template.read_text() + "\n{#- another -#}")
    with pytest.raises(NothingToStartFrom, match="another tokenizer"):
        start("c", first, tmp_path / "other")
    shutil.copy(first / "store.db", tmp_path / "bad.db")
    assert damage(tmp_path / "bad.db", every=1)
    with pytest.raises(NothingToStartFrom, match="Its live rows: 16 damaged"):
        start("d", tmp_path / "bad.db")
