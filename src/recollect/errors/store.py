"""What can go wrong with a store and what lies in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.errors.base import RecollectError
from recollect.errors.extras import update_command


class CorruptFrame(RecollectError):
    """A stored frame fails its checksum or its own lengths: bytes changed since."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The frame is damaged: {problem}.")
        self.problem = problem


class StoreError(RecollectError):
    """Base of everything that can go wrong with a store; `path` says where the store is."""

    def __init__(self, path: object, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.path = path


class StoreMissing(StoreError):
    """There is no store at this path."""

    def __init__(self, path: object, hint: str = "") -> None:
        super().__init__(
            path,
            f"There is no store at {path}.",
            hint
            or "Name another with --store (a run's folder will do), or make one with: recollect "
            "pool import FILE --store PATH",
        )


class BadAddress(RecollectError):
    """An address of a PostgreSQL store cannot be read."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The store's address cannot be read: {why}.",
            "Write postgres://user@host:5432/database?schema=name (all but the scheme optional).",
        )


class StoreUnreachable(StoreError):
    """A database server cannot be reached, or went away and did not come back in time."""

    def __init__(self, path: object, why: str, sure: bool = True) -> None:
        state = "Nothing was written." if sure else "It is not known whether it was written."
        super().__init__(
            path,
            f"{path} cannot be reached: {why}.",
            f"{state} Start the server or check the address, then try again: writing the same "
            "records twice is safe.",
        )


class NotAStore(StoreError):
    """The file exists but Recollect did not make it."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(
            path,
            f"{path} is not a Recollect store: {why}.",
            "Nothing was changed. Name the right file with --store.",
        )


class StoreTooNew(StoreError):
    """A later version of Recollect wrote this store."""

    def __init__(self, path: object, found: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} has schema {found}; this Recollect knows schemas up to {known}.",
            f"Nothing was changed. Update Recollect with: {update_command()}",
        )


class StoreTooOld(StoreError):
    """The store needs a migration, which only a writer may run."""

    def __init__(self, path: object, found: int, known: int) -> None:
        super().__init__(
            path,
            f"{path} has schema {found}; this Recollect reads schema {known}.",
            f"Bring it up to date with: recollect pool migrate --store {path}",
        )


class StoreLocked(StoreError):
    """Another live process is the store's writer."""

    def __init__(self, path: object, owner: str) -> None:
        super().__init__(
            path,
            f"{path} is being written by {owner}.",
            "Reading works meanwhile. To write, wait for that process or stop it.",
        )
        self.owner = owner


class StoreBusy(StoreError):
    """SQLite could not get a file lock in time: a long read or a foreign program holds it."""

    def __init__(self, path: object, waited: float) -> None:
        super().__init__(
            path,
            f"{path} stayed locked for {waited:g} s by another connection.",
            "Close other programs that have the file open, then try again.",
        )


class StoreFull(StoreError):
    """The disk (or the store's size limit) is full; the transaction was rolled back whole."""

    def __init__(self, path: object, free: int | None) -> None:
        room = "" if free is None else f" ({free:,} bytes free)"
        super().__init__(
            path,
            f"No room left on the disk that holds {path}{room}.",
            "Nothing acknowledged was lost. Free some space, then go on.",
        )


class StoreReadOnly(StoreError):
    """The store or its folder cannot be written."""

    def __init__(self, path: object, why: str = "") -> None:
        reason = f": {why}" if why else ""
        super().__init__(
            path,
            f"{path} cannot be written{reason}.",
            "Check the permissions of the file and its folder, or copy the store elsewhere.",
        )


class StoreDamaged(StoreError):
    """SQLite itself finds the file damaged."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(
            path,
            f"{path} is damaged: {why}.",
            f"See what is hurt with: recollect pool verify --store {path}",
        )


class StoreFailed(StoreError):
    """The operating system or SQLite failed in a way no other class names."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(
            path,
            f"The store {path} failed: {why}.",
            "The transaction was rolled back. Check the disk, then try again.",
        )


class StoreConflict(StoreError):
    """Something with this key is stored already, with other content."""

    def __init__(self, path: object, table: str, key: str) -> None:
        super().__init__(
            path,
            f"{table} {key} is already stored with different content.",
            "Records never change once stored: give the new one another id, or fence its step.",
        )
        self.key = key


class CorruptRecord(StoreError):
    """Stored trajectories whose frames fail their checksum; they are quarantined, not returned."""

    def __init__(self, path: object, ids: Sequence[str], problem: str) -> None:
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        super().__init__(
            path,
            f"Damaged trajectory {shown}: {problem}.",
            f"Set such records aside with: recollect pool verify --store {path}",
        )
        self.ids = tuple(ids)
        self.problem = problem


class UnknownId(StoreError):
    """No record of this kind has this id."""

    def __init__(self, path: object, kind: str, given: str, hint: str = "") -> None:
        super().__init__(
            path,
            f"No {kind} {given!r} in {path}.",
            hint or "List what is there with: recollect pool ls",
        )
        self.given = given


class AmbiguousId(StoreError):
    """A shortened id fits several records."""

    def __init__(self, path: object, kind: str, given: str, matches: Sequence[str]) -> None:
        super().__init__(
            path,
            f"{given!r} fits several {kind} ids: {', '.join(matches)}.",
            "Give a few more characters.",
        )
        self.matches = tuple(matches)


class SameStore(StoreError):
    """A store was to be copied to where it is."""

    def __init__(self, path: object) -> None:
        super().__init__(
            path,
            f"{path} cannot be copied onto itself.",
            "Nothing was changed. Name another place as the second argument.",
        )


class BadQuery(StoreError):
    """A user's SQL is malformed, would write, or ran too long."""

    def __init__(self, path: object, why: str, hint: str = "") -> None:
        super().__init__(
            path,
            f"The query was refused: {why.rstrip('.')}.",
            hint or 'See the tables with: recollect pool sql "SELECT name, sql FROM sqlite_schema"',
        )


class ExportFailed(RecollectError):
    """An export could not be written; nothing stands under the name that was asked for."""

    def __init__(self, target: Path | str, why: str, hint: str = "") -> None:
        super().__init__(
            f"The export to {target} failed: {why}.",
            hint or "Nothing was written under that name. Check the folder and its free space.",
        )


class NothingToStartFrom(StoreError):
    """The pool that a run is to begin with has no row it could train on."""

    def __init__(self, path: object, left: int, damaged: int = 0) -> None:
        counts = {"made with another tokenizer, template or environment": left, "damaged": damaged}
        reasons = [f"{count:,} {why}" for why, count in counts.items() if count]
        why = f"Its live rows: {', '.join(reasons)}." if reasons else "It has no live rows."
        super().__init__(
            path,
            f"pool.start_from: nothing in {path} can be replayed here. {why}",
            "Use a store of the same model and environment, or set pool.start_from=none.",
        )


class EmptyPool(StoreError):
    """There is nothing to draw from."""

    def __init__(self, path: object) -> None:
        super().__init__(
            path,
            f"{path} holds no live trajectories.",
            "Train a while first, or import some with: recollect pool import FILE",
        )


class StoreNotEmpty(StoreError):
    """A store is to be copied to a place where there is something already."""

    def __init__(self, path: object) -> None:
        super().__init__(
            path,
            f"{path} is not empty, so that nothing was copied.",
            "Name a new place, or bring rows together with: recollect pool export, pool import",
        )


class StoreCopyDiffers(StoreError):
    """A copy, read back, is not what was read from the source."""

    def __init__(self, path: object, table: str) -> None:
        super().__init__(
            path,
            f"{path} differs from what was copied into it, in {table}.",
            "Do not use the copy. Check the disk or the server, remove the copy, then try again.",
        )


class SameRun(StoreError):
    """The pool that a run is to begin with holds a run of the same name."""

    def __init__(self, path: object, run: str) -> None:
        super().__init__(
            path,
            f"pool.start_from: {path} holds a run {run} too, the name of this one.",
            "Give this run's folder another name.",
        )
