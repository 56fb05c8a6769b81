"""The tables, declared once.

Every row is protected: either its facts carry a CRC32C, or every value in it can be derived
again from rows that do (`verify` does both). Rows that belong to a step carry `fence`: 0
while they count, the number of a fence once their step was set aside.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c

from recollect.canonical import canonical_json

APPLICATION_ID = 0x52434C54  # "RCLT", in the SQLite header: this file is ours
SCHEMA = 2
_FRAME = struct.Struct("<Id")


@dataclass(frozen=True, slots=True)
class Table:
    """One checksummed table: its facts, what identifies a row, and whether steps own its rows.

    `at` (when the row was written) is protected by the checksum but is not part of what makes
    two rows equal: redoing a step happens later.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    fenced: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the facts, in order."""
        return tuple(name for name, _ in self.facts)

    @property
    def ddl(self) -> tuple[str, str]:
        """The statements that make the table and the index over its live keys."""
        facts = ", ".join(f"{name} {kind}" for name, kind in self.facts)
        fence = ", fence INTEGER NOT NULL DEFAULT 0" if self.fenced else ""
        live = " WHERE fence = 0" if self.fenced else ""
        return (
            f"CREATE TABLE {self.name} (number INTEGER PRIMARY KEY AUTOINCREMENT, {facts}, "
            f"at REAL NOT NULL, crc INTEGER NOT NULL{fence})",
            f"CREATE UNIQUE INDEX {self.name}_key ON {self.name} ({', '.join(self.key)}){live}",
        )


def row_crc(values: Sequence[object]) -> int:
    """Checksum a row's number and facts followed by `at`, as SQLite gives them back."""
    # SQLite forgets the sign of zero.
    signless = [0.0 if value == 0 and isinstance(value, float) else value for value in values]
    return int(google_crc32c.value(canonical_json(signless).encode("utf-8")))


def frame_crc(frame: int, at: float) -> int:
    """Checksum a frame's own checksum followed by `at`, as SQLite gives them back."""
    return int(google_crc32c.value(_FRAME.pack(frame, at + 0.0)))  # -0.0 + 0.0 is 0.0


def _facts(**columns: str) -> tuple[tuple[str, str], ...]:
    return tuple(columns.items())


_INT, _REAL, _TEXT = "INTEGER NOT NULL", "REAL NOT NULL", "TEXT NOT NULL"

RUNS = Table("runs", _facts(id=_TEXT, seed=_INT, config=_TEXT), ("id",), fenced=False)
TASKS = Table(
    "tasks",
    _facts(key=_TEXT, environment=_TEXT, id=_TEXT, version=_TEXT, query=_TEXT)
    + _facts(domain=_TEXT, split=_TEXT, level=_INT),
    ("key",),
    fenced=False,
)
PROVENANCES = Table(
    "provenances",
    _facts(tokenizer=_TEXT, environment_version=_TEXT, reward_version=_TEXT),
    ("tokenizer", "environment_version", "reward_version"),
    fenced=False,
)
GROUPS = Table(
    "groups",
    _facts(id=_TEXT, run=_INT, step=_INT, task=_INT, policy_version=_INT),
    ("id",),
)
TASK_STATES = Table(
    "task_states",
    _facts(run=_INT, task=_INT, step=_INT, successes=_INT, rows=_INT)
    + _facts(retired=_INT, retest_step="INTEGER", data=_TEXT),
    ("run", "task", "step"),
)
DRAWS = Table(
    "draws",
    _facts(run=_INT, step=_INT, slot=_INT, trajectory=_TEXT, group_id=_TEXT, age=_INT)
    + _facts(probability=_REAL, reason=_TEXT, weight=_REAL),
    ("run", "step", "slot"),
)
USES = Table(
    "uses",
    _facts(run=_INT, step=_INT, slot=_INT, trajectory=_TEXT, epochs=_INT)
    + _facts(ratio_mean="REAL", ratio_p50="REAL", ratio_p99="REAL", ratio_max="REAL")
    + _facts(ess="REAL", clip_share="REAL", loss_share="REAL"),
    ("run", "step", "slot"),
)
SCORES = Table(
    "scores",
    _facts(run=_INT, step=_INT, trajectory=_TEXT, advantage=_REAL, priority=_REAL)
    + _facts(ess="REAL", ratio="REAL"),
    ("run", "step", "trajectory"),
)
MARKS = Table(
    "marks",
    _facts(trajectory=_TEXT, action=_TEXT, reason=_TEXT, run="INTEGER", step="INTEGER"),
    # NULLs differ from each other: a person's marks are never taken for repeats.
    ("trajectory", "action", "run", "step"),
)
NOTES = Table(
    "notes",
    _facts(id=_TEXT, content=_TEXT, when_to_use=_TEXT, workspace=_TEXT, author=_TEXT)
    + _facts(trust=_REAL, run="INTEGER", step="INTEGER", data=_TEXT),
    ("id",),
)
LINKS = Table(
    "links",
    _facts(note=_TEXT, trajectory=_TEXT, kind=_TEXT, run="INTEGER", step="INTEGER"),
    ("note", "trajectory", "kind"),
)
NOTE_MARKS = Table(
    "note_marks",
    _facts(note=_TEXT, action=_TEXT, reason=_TEXT, run="INTEGER", step="INTEGER"),
    ("note", "action", "run", "step"),
)
NOTE_TRIALS = Table(
    "note_trials",
    _facts(note=_TEXT, group_id=_TEXT, rows=_INT, wins=_INT, bare_rows=_INT, bare_wins=_INT)
    + _facts(run="INTEGER", step="INTEGER"),
    ("note", "group_id", "run", "step"),
)
DISTILLATIONS = Table("distillations", _facts(key=_TEXT, data=_TEXT), ("key",), fenced=False)
EVENTS = Table(
    "events",
    _facts(run=_INT, step=_INT, kind=_TEXT, digest=_TEXT, data=_TEXT),
    ("run", "step", "kind", "digest"),
)
CURSORS = Table(
    "cursors",
    _facts(run=_INT, step=_INT, policy_version=_INT, data=_TEXT),
    ("run", "step"),
)
FENCES = Table(
    "fences",
    _facts(run=_INT, after_step=_INT, reason=_TEXT, contents=_TEXT),
    ("number",),
    fenced=False,
)

_FIRST = (
    *(RUNS, TASKS, PROVENANCES, GROUPS, TASK_STATES, DRAWS, USES, SCORES, MARKS, NOTES, LINKS),
    *(EVENTS, CURSORS, FENCES),
)
_OF_NOTES = (NOTE_MARKS, NOTE_TRIALS, DISTILLATIONS)
CHECKED = (*_FIRST, *_OF_NOTES)
OF_A_STEP = tuple(table for table in CHECKED if table.fenced)

# What the fields of `state.State` are, which changes after a row was written.
TRAJECTORY_STATE = (
    *("uses", "last_use", "status", "pinned", "advantage", "priority", "ess", "ratio"),
)
# The metadata of a trajectory repeats what its frame says (crc covers the frame's own and `at`),
# plus state that follows from `uses`, `scores` and `marks`. `pack` holds the numbers once more,
# as PACK.
TRAJECTORY_FACTS = (
    *("id", "run", "step", "task", "group_id", "origin", "policy_version", "reward", "success"),
    *("tokens", "sampled", "entropy", "logprob", "provenance", "bytes", "crc", "pack"),
)

# Every table that holds rows, with its columns, the one that numbers its rows first.
LAYOUT: dict[str, tuple[str, ...]] = {
    **{
        table.name: ("number", *table.columns, "at", "crc", *(["fence"] if table.fenced else []))
        for table in CHECKED
    },
    "trajectories": ("seq", *TRAJECTORY_FACTS, *TRAJECTORY_STATE, "changed", "at", "fence"),
    "payloads": ("seq", "frame"),
}

DDL_1 = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('change', 0), ('reclaimed', 0)",
    *(statement for table in _FIRST for statement in table.ddl),
    """CREATE TABLE trajectories (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, run INTEGER NOT NULL,
        step INTEGER NOT NULL, task INTEGER NOT NULL, group_id TEXT NOT NULL, origin TEXT NOT NULL,
        policy_version INTEGER, reward REAL NOT NULL, success INTEGER NOT NULL,
        tokens INTEGER NOT NULL, sampled INTEGER NOT NULL, entropy REAL, logprob REAL,
        provenance INTEGER NOT NULL, bytes INTEGER NOT NULL, crc INTEGER NOT NULL,
        pack BLOB NOT NULL, uses INTEGER NOT NULL, last_use INTEGER,
        status TEXT NOT NULL, pinned INTEGER NOT NULL, advantage REAL, priority REAL,
        ess REAL, ratio REAL, changed INTEGER NOT NULL,
        at REAL NOT NULL, fence INTEGER NOT NULL DEFAULT 0)""",
    "CREATE UNIQUE INDEX trajectories_key ON trajectories (id) WHERE fence = 0",
    "CREATE INDEX trajectories_task ON trajectories (task)",
    "CREATE INDEX trajectories_step ON trajectories (run, step)",
    "CREATE INDEX trajectories_changed ON trajectories (changed)",
    "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, frame BLOB NOT NULL)",
    "CREATE INDEX draws_trajectory ON draws (trajectory)",
    "CREATE INDEX uses_trajectory ON uses (trajectory)",
    # Its last entry for a trajectory is the newest score: the one that counts.
    "CREATE INDEX scores_trajectory ON scores (trajectory, step) WHERE fence = 0",
    "CREATE INDEX links_trajectory ON links (trajectory)",
    # What a person queries with `pool sql`: names instead of numbers.
    """CREATE VIEW pool AS
        SELECT t.seq, t.id, k.environment, k.domain, k.id AS task, k.key AS task_key, k.split,
               k.level, r.id AS run, t.step, t.group_id, t.origin, t.policy_version, t.reward,
               t.success, t.tokens, t.sampled, t.entropy, t.logprob, t.bytes, t.uses, t.last_use,
               t.status, t.pinned, t.advantage, t.priority, t.ess, t.ratio, t.at
        FROM trajectories t JOIN tasks k ON k.number = t.task JOIN runs r ON r.number = t.run
        WHERE t.fence = 0""",
)

# Notes learn whether they help.
DDL_2 = tuple(statement for table in _OF_NOTES for statement in table.ddl)
