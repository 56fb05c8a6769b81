"""Replay when stored rows are damaged or taken away under a run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from recollect.store import open_reader
from recollect.telemetry.events import Event, StepFinished, Warned
from recollect.types import Action, RunId, Status

from .replays import EVERYTHING
from .small import Recorder, make_config, run_to_end

RUN = RunId("run")


def damage(store: Path) -> int:
    """Flip a bit of every second frame; says how many."""
    link = sqlite3.connect(store)
    with link:
        frames = link.execute("SELECT seq, frame FROM payloads WHERE seq % 2").fetchall()
        for seq, frame in frames:
            bad = bytes([*frame[:60], frame[60] ^ 1, *frame[61:]])
            link.execute("UPDATE payloads SET frame = ? WHERE seq = ?", (bad, seq))
    link.close()
    return len(frames)


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
