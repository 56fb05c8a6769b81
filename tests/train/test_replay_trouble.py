"""Replay when stored rows are damaged or taken away under a run."""

from __future__ import annotations

from pathlib import Path

from recollect.ledger import Draw
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.events import Event, PhaseStarted, StepFinished, Warned
from recollect.train.loop import train
from recollect.types import Action, RunId, Status

from .damage import damage
from .replays import EVERYTHING
from .small import Recorder, make_config, open_run, run_to_end

RUN, OTHER = RunId("run"), RunId("other")


def test_a_run_goes_on_without_damaged_rows(model: Path, tmp_path: Path) -> None:
    """They are quarantined, told, written down, and neither drawn nor used."""

    def then(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 2:
            assert damage(tmp_path / "run" / "store.db")

    recorder = Recorder(then)
    flags = ("run.steps=4", "eval.every=0", "checkpoint.every=0", "environment.tasks=4")
    config = make_config(model, *flags, *EVERYTHING, "draw.choice=likeliest", "pool.max_uses=99")
    assert run_to_end(tmp_path / "run", config, recorder).step == 4
    with open_reader(tmp_path / "run" / "store.db") as store:
        lost = {
            id_: event.step
            for event in store.events(RUN)
            if event.kind == "rows_left_out"
            for id_ in event.data["why"]  # type: ignore[union-attr]
        }
        assert lost, "no damaged row was drawn"
        assert set(lost.values()) <= {3, 4}
        for id_, step in lost.items():
            assert store.row(id_).status is Status.QUARANTINED
            assert [mark.action for mark in store.marks(id_)] == [Action.QUARANTINE]
            assert all(draw.step < step for draw in store.draws(trajectory=id_))
        assert {use.step for use in store.uses(RUN)} >= {3, 4}, "the others still train"
        # Nothing but the frames is wrong.
        assert {finding.where.split()[0] for finding in store.verify()} == {"trajectory"}
    told = [event.text for event in recorder.events if isinstance(event, Warned)]
    steps = sorted(set(lost.values()))
    assert [text.split(":")[0] for text in told] == [f"step {step}" for step in steps]
    assert "pool verify --store" in told[0]


def test_a_step_is_finished_though_the_rows_it_drew_are_gone(model: Path, tmp_path: Path) -> None:
    """The run that made them is resumed, and its fenced rows are pruned, by somebody else."""
    shared = (
        "run.steps=2",
        "eval.every=0",
        "checkpoint.every=0",
        f"store.path={tmp_path / 'p.db'}",
    )
    run_to_end(tmp_path / "other", make_config(model, *shared))
    drawn: list[Draw] = []

    def then(event: Event) -> None:
        if event == PhaseStarted(1, "draw"):  # after the pool was looked at
            session.store.fence(OTHER, 1, "resumed")
        if event == PhaseStarted(1, "score"):
            drawn.extend(session.store.draws(RUN, 1))
            session.store.fence(OTHER, 0, "resumed")
            session.store.reclaim(None, None, True)

    buffer = ("replay.modes=[buffer]", "replay.buffer_rows=16")
    with open_run(
        tmp_path / "run", make_config(model, *shared, *buffer), Recorder(then)
    ) as session:
        assert train(session).step == 2
    assert drawn, "nothing was drawn"
    with open_reader(tmp_path / "p.db") as store:
        assert "rows_left_out" in {event.kind for event in store.events(RUN, 1)}
        used = [use.trajectory for use in store.uses(RUN, 1)]
        assert used
        assert set(used) <= {draw.trajectory for draw in drawn}
        assert not store.rows(Query(ids=used, status=None)).rows
        assert list(store.verify()) == []
