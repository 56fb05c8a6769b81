"""One exception class per failure; each says what, where, and what to do next.

Library code raises these and nothing vaguer. The command line prints `what` and `hint` on
separate lines and leaves with `exit_code`; it never shows a traceback for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class RecollectError(Exception):
    """Base of every failure we know by name: `what` happened and a `hint` for the next step."""

    exit_code = 2

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} {hint}".strip())
        self.what = what
        self.hint = hint


class InvalidRecord(RecollectError):
    """A record breaks the contract of `recollect.types`; `field` names the culprit."""

    def __init__(self, field: str, problem: str, record: str = "") -> None:
        where = f"{record}: " if record else ""
        super().__init__(f"{where}{field}: {problem}.")
        self.field = field
        self.problem = problem


class CorruptFrame(RecollectError):
    """A stored frame fails its checksum or its own lengths: bytes changed since."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The frame is damaged: {problem}.")
        self.problem = problem


class MissingExtra(RecollectError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs a package that is not installed.",
            f"Install it with: pip install 'recollect[{extra}]'",
        )


class StoreError(RecollectError):
    """Base of everything that can go wrong with a store; `path` is the store's file."""

    def __init__(self, path: Path | str, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.path = Path(path)


class StoreMissing(StoreError):
    """There is no store at this path."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            path,
            f"There is no store at {path}.",
            "Name another with --store, or make one with: recollect pool import FILE --store PATH",
        )


class NotAStore(StoreError):
    """The file exists but Recollect did not make it."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            path,
            f"{path} is not a Recollect store: {why}.",
            "Nothing was changed. Name the right file with --store.",
        )


class StoreTooNew(StoreError):
    """A later version of Recollect wrote this store."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} has schema {found}; this Recollect knows schemas up to {known}.",
            "Nothing was changed. Upgrade with: pip install --upgrade recollect",
        )


class StoreTooOld(StoreError):
    """The store needs a migration, which only a writer may run."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} has schema {found}; this Recollect reads schema {known}.",
            f"Bring it up to date with: recollect pool migrate --store {path}",
        )


class StoreLocked(StoreError):
    """Another live process is the store's writer."""

    def __init__(self, path: Path | str, owner: str) -> None:
        super().__init__(
            path,
            f"{path} is being written by {owner}.",
            "Reading works meanwhile. To write, wait for that process or stop it.",
        )
        self.owner = owner


class StoreBusy(StoreError):
    """SQLite could not get a file lock in time: a long read or a foreign program holds it."""

    def __init__(self, path: Path | str, waited: float) -> None:
        super().__init__(
            path,
            f"{path} stayed locked for {waited:g} s by another connection.",
            "Close other programs that have the file open, then try again.",
        )


class StoreFull(StoreError):
    """The disk (or the store's size limit) is full; the transaction was rolled back whole."""

    def __init__(self, path: Path | str, free: int | None) -> None:
        room = "" if free is None else f" ({free:,} bytes free)"
        super().__init__(
            path,
            f"No room left on the disk that holds {path}{room}.",
            "Nothing acknowledged was lost. Free some space, then go on.",
        )


class StoreReadOnly(StoreError):
    """The store or its folder cannot be written."""

    def __init__(self, path: Path | str, why: str = "") -> None:
        reason = f": {why}" if why else ""
        super().__init__(
            path,
            f"{path} cannot be written{reason}.",
            "Check the permissions of the file and its folder, or copy the store elsewhere.",
        )


class StoreDamaged(StoreError):
    """SQLite itself finds the file damaged."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            path,
            f"{path} is damaged: {why}.",
            f"See what is hurt with: recollect pool verify --store {path}",
        )


class StoreFailed(StoreError):
    """The operating system or SQLite failed in a way no other class names."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(
            path,
            f"The store {path} failed: {why}.",
            "The transaction was rolled back. Check the disk, then try again.",
        )


class StoreConflict(StoreError):
    """Something with this key is stored already, with other content."""

    def __init__(self, path: Path | str, table: str, key: str) -> None:
        super().__init__(
            path,
            f"{table} {key} is already stored with different content.",
            "Records never change once stored: give the new one another id, or fence its step.",
        )
        self.key = key


class CorruptRecord(StoreError):
    """Stored trajectories whose frames fail their checksum; they are quarantined, not returned."""

    def __init__(self, path: Path | str, ids: Sequence[str], problem: str) -> None:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        super().__init__(
            path,
            f"Damaged trajectory {shown}: {problem}.",
            f"Set such records aside with: recollect pool verify --store {path}",
        )
        self.ids = tuple(ids)


class UnknownId(StoreError):
    """No record of this kind has this id."""

    def __init__(self, path: Path | str, kind: str, given: str, hint: str = "") -> None:
        super().__init__(
            path,
            f"No {kind} {given!r} in {path}.",
            hint or "List what is there with: recollect pool ls",
        )
        self.given = given


class AmbiguousId(StoreError):
    """A shortened id fits several records."""

    def __init__(self, path: Path | str, kind: str, given: str, matches: Sequence[str]) -> None:
        super().__init__(
            path,
            f"{given!r} fits several {kind} ids: {', '.join(matches)}.",
            "Give a few more characters.",
        )
        self.matches = tuple(matches)


class BadQuery(StoreError):
    """A user's SQL is malformed, would write, or ran too long."""

    def __init__(self, path: Path | str, why: str, hint: str = "") -> None:
        super().__init__(
            path,
            f"The query was refused: {why}.",
            hint or 'See the tables with: recollect pool sql "SELECT name, sql FROM sqlite_schema"',
        )


class BadFile(RecollectError):
    """A file to import cannot be used at all (single bad lines are reported, not raised)."""

    def __init__(self, path: Path | str, why: str, hint: str = "") -> None:
        super().__init__(f"{path}: {why}.", hint)
        self.path = Path(path)


class UnknownEnvironment(RecollectError):
    """No environment has this name."""

    def __init__(self, name: str, known: Sequence[str], nearest: str = "") -> None:
        guess = f"Did you mean {nearest!r}? " if nearest else ""
        super().__init__(
            f"There is no environment {name!r}.",
            f"{guess}Known: {', '.join(known)}; or give your own as path/to/file.py:ClassName.",
        )
        self.nearest = nearest


class BadEnvironment(RecollectError):
    """An environment exists but cannot be made: its code, its options or its data are wrong."""

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f"Environment {name}: {why}.", hint)


class UnknownTask(RecollectError):
    """An environment was given a task, a split or a kind that it does not have."""

    def __init__(self, environment: str, what: str, given: str, known: Sequence[str] = ()) -> None:
        shown = f"Known: {', '.join(known)}." if known else "List them with: recollect env ls"
        super().__init__(f"Environment {environment} has no {what} {given[:80]!r}.", shown)


class BadDataset(RecollectError):
    """A line of a file of prompts cannot be used."""

    def __init__(self, path: Path | str, line: int, why: str, hint: str = "") -> None:
        super().__init__(f"{path}, line {line}: {why}.", hint)
        self.path = Path(path)
        self.line = line


class RewardFailed(RecollectError):
    """A user's reward function raised, or returned something that is not a finite number."""

    def __init__(self, task: str, why: str) -> None:
        super().__init__(
            f"The reward of task {task} failed: {why}.",
            "The attempt was not scored. Make the function return a finite number for any text.",
        )


class EpisodeOver(RecollectError):
    """Somebody went on answering after an episode had ended or was closed."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"The episode of task {task} is over.",
            "Stop when a turn says done, and start a new episode for another attempt.",
        )


class WouldOverwrite(RecollectError):
    """A command would replace a file that is already there."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is already there; nothing was written.", "Choose another name.")
        self.path = Path(path)
