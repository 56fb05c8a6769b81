"""What an import is made of: the limits it keeps, the records a line brings, the bad lines."""

from __future__ import annotations

from dataclasses import dataclass, fields

from recollect.errors import InvalidRecord
from recollect.ledger import Note, NoteLink, Run
from recollect.trajectory import Trajectory
from recollect.types import Task
from recollect.validation import check_count

_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Limits:
    """What an import refuses to hold in memory. Each applies to one line (or Parquet row).

    `max_values` bounds what a line may unfold to: its commas and opening brackets are counted
    before it is parsed. `max_group_bytes` is for the row groups of a Parquet file.
    """

    max_line_bytes: int = 64 * 2**20
    max_depth: int = 128  # a record may hold 100 levels, and stands a few levels deep itself
    max_values: int = 4_000_000
    max_messages: int = 100_000
    max_group_bytes: int = 2**30

    def __post_init__(self) -> None:
        for field in fields(self):
            check_count(f"limits.{field.name}", getattr(self, field.name), 2**63 - 1)


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was not imported: its number (from 1), the field to blame, and why."""

    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Incoming:
    """What one line brings, `size` bytes long.

    `default_run` is made only where the store has no run of that id yet; `runs` must be equal
    to what is stored.
    """

    line: int
    size: int
    runs: tuple[Run, ...] = ()
    default_run: Run | None = None
    tasks: tuple[Task, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
    notes: tuple[Note, ...] = ()
    links: tuple[NoteLink, ...] = ()


def bad_line(number: int, error: InvalidRecord | RecursionError) -> BadLine:
    """Say what is wrong with a line."""
    if isinstance(error, RecursionError):
        return BadLine(number, "line", "is nested too deeply")
    return BadLine(number, error.field, error.problem[:_LONGEST_REASON])
