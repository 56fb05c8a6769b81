"""What a run writes down refuses bad values at construction, and names the field."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from factories import FakeRun
from recollect.errors import InvalidRecord
from recollect.ledger import (
    Cursor,
    Draw,
    Event,
    Group,
    Mark,
    Note,
    NoteLink,
    Run,
    Score,
    TaskState,
    Use,
)
from recollect.types import Action, LinkKind, RunId

BATCH = FakeRun().step(2)
RUN: Run = FakeRun().setup().runs[0]
GROUP: Group = BATCH.groups[0]
STATE: TaskState = BATCH.task_states[0]
DRAW: Draw = BATCH.draws[0]
USE: Use = BATCH.uses[0]
SCORE: Score = BATCH.scores[0]
MARK: Mark = BATCH.marks[0]
NOTE: Note = BATCH.notes[0]
LINK: NoteLink = BATCH.links[0]
EVENT: Event = BATCH.events[0]
CURSOR: Cursor = BATCH.cursors[0]

BAD_ID = "not an id"
NAN = float("nan")
DEEP: Any = {"a": {"b": (1,)}}


@pytest.mark.parametrize(
    ("record", "changes", "field"),
    [
        (RUN, {"id": BAD_ID}, "run.id"),
        (RUN, {"seed": -1}, "run.seed"),
        (RUN, {"seed": 2**63}, "run.seed"),
        (RUN, {"config": {"a": NAN}}, "run.config"),
        (RUN, {"config": None}, "run.config"),
        (GROUP, {"id": BAD_ID}, "group.id"),
        (GROUP, {"run": None}, "group.run"),
        (GROUP, {"task": ""}, "group.task"),
        (GROUP, {"step": -1}, "group.step"),
        (GROUP, {"policy_version": None}, "group.policy_version"),
        (STATE, {"run": BAD_ID}, "task_state.run"),
        (STATE, {"task": BAD_ID}, "task_state.task"),
        (STATE, {"step": 1.0}, "task_state.step"),
        (STATE, {"successes": -1}, "task_state.successes"),
        (STATE, {"rows": -1}, "task_state.rows"),
        (STATE, {"successes": 5, "rows": 4}, "task_state.successes"),
        (STATE, {"retired": "yes"}, "task_state.retired"),
        (STATE, {"retest_step": -1}, "task_state.retest_step"),
        (STATE, {"data": DEEP}, "task_state.data"),
        (DRAW, {"run": BAD_ID}, "draw.run"),
        (DRAW, {"trajectory": BAD_ID}, "draw.trajectory"),
        (DRAW, {"group": BAD_ID}, "draw.group"),
        (DRAW, {"step": -1}, "draw.step"),
        (DRAW, {"slot": -1}, "draw.slot"),
        (DRAW, {"age": -1}, "draw.age"),
        (DRAW, {"probability": 0.0}, "draw.probability"),
        (DRAW, {"probability": 1.5}, "draw.probability"),
        (DRAW, {"probability": NAN}, "draw.probability"),
        (DRAW, {"weight": float("inf")}, "draw.weight"),
        (DRAW, {"weight": 10**400}, "draw.weight"),
        (DRAW, {"reason": None}, "draw.reason"),
        (USE, {"run": BAD_ID}, "use.run"),
        (USE, {"trajectory": BAD_ID}, "use.trajectory"),
        (USE, {"step": None}, "use.step"),
        (USE, {"slot": -1}, "use.slot"),
        (USE, {"epochs": -1}, "use.epochs"),
        *((USE, {name: NAN}, f"use.{name}") for name in ("ratio_mean", "ratio_p50", "ratio_p99")),
        *((USE, {name: "1"}, f"use.{name}") for name in ("ratio_max", "ess", "clip_share")),
        (USE, {"loss_share": float("-inf")}, "use.loss_share"),
        (SCORE, {"run": BAD_ID}, "score.run"),
        (SCORE, {"trajectory": None}, "score.trajectory"),
        (SCORE, {"step": -1}, "score.step"),
        (SCORE, {"advantage": None}, "score.advantage"),
        (SCORE, {"priority": None}, "score.priority"),
        *((SCORE, {name: NAN}, f"score.{name}") for name in ("advantage", "priority")),
        *((SCORE, {name: float("inf")}, f"score.{name}") for name in ("ess", "ratio")),
        *((SCORE, {name: -0.1}, f"score.{name}") for name in ("priority", "ess", "ratio")),
        *((SCORE, {"ess": value}, "score.ess") for value in (0, 0.0, 1.01, True)),
        (MARK, {"trajectory": BAD_ID}, "mark.trajectory"),
        (MARK, {"reason": "\ud800"}, "mark.reason"),
        (MARK, {"action": "ban"}, "mark.action"),
        (MARK, {"run": None}, "mark"),
        (MARK, {"step": None}, "mark"),
        (MARK, {"run": BAD_ID}, "mark.run"),
        (MARK, {"step": -1}, "mark.step"),
        (NOTE, {"id": BAD_ID}, "note.id"),
        *((NOTE, {name: 1}, f"note.{name}") for name in ("content", "when_to_use")),
        *((NOTE, {name: None}, f"note.{name}") for name in ("workspace", "author")),
        (NOTE, {"trust": NAN}, "note.trust"),
        (NOTE, {"run": None}, "note"),
        (NOTE, {"step": -1}, "note.step"),
        (NOTE, {"data": {"a": b"b"}}, "note.data"),
        (LINK, {"note": BAD_ID}, "note_link.note"),
        (LINK, {"trajectory": BAD_ID}, "note_link.trajectory"),
        (LINK, {"kind": "source"}, "note_link.kind"),
        (LINK, {"step": None}, "note_link"),
        (LINK, {"run": BAD_ID}, "note_link.run"),
        (EVENT, {"run": BAD_ID}, "event.run"),
        (EVENT, {"step": -1}, "event.step"),
        (EVENT, {"kind": 7}, "event.kind"),
        (EVENT, {"data": DEEP}, "event.data"),
        (CURSOR, {"run": BAD_ID}, "cursor.run"),
        (CURSOR, {"step": -1}, "cursor.step"),
        (CURSOR, {"policy_version": -1}, "cursor.policy_version"),
        (CURSOR, {"data": {1: 2}}, "cursor.data"),
    ],
)
def test_refused(record: Any, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        replace(record, **changes)
    assert caught.value.field == field
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (RUN, {"seed": 2**63 - 1}),
        (STATE, {"successes": 0, "rows": 0}),
        (DRAW, {"probability": 1}),
        (DRAW, {"weight": -2.5}),
        (USE, {"ratio_mean": None, "ess": 3}),
        (SCORE, {"advantage": -2.5, "priority": 0, "ess": 1, "ratio": 0.0}),
        (SCORE, {"ess": None, "ratio": None}),
        (MARK, {"run": None, "step": None}),
        (MARK, {"action": Action.RELEASE}),
        (NOTE, {"run": None, "step": None}),
        (LINK, {"kind": LinkKind.GUIDED, "run": RunId("other"), "step": 0}),
        (EVENT, {"data": {"nested": [{"a": None}]}}),
    ],
)
def test_accepted(record: Any, changes: dict[str, Any]) -> None:
    changed = replace(record, **changes)
    assert {name: getattr(changed, name) for name in changes} == changes


@pytest.mark.parametrize(
    "record",
    [RUN, GROUP, STATE, DRAW, USE, SCORE, MARK, NOTE, LINK, EVENT, CURSOR],
    ids=lambda r: type(r).__name__,
)
def test_frozen(record: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(record, fields(record)[0].name, "other")
