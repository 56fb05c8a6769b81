"""The pool: a columnar index, in memory, over the live rows of a store.

Replay weighs and draws from these columns; nothing here reads a trajectory. A row costs less
than 100 bytes, and a refresh costs as much as what changed since the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay import lineage
from recollect.replay.journal import Journal
from recollect.replay.reading import GONE, names_of, read_rows
from recollect.store.base import StoreReader
from recollect.store.records import PACK, Columns, Provenance
from recollect.trajectory import Trajectory
from recollect.types import RunId, Task, TrajectoryId

_ALL = slice(None)
_SPARE = 1.125  # growth of the arrays: amortised O(1) appends at a bounded cost in memory
_OLDEST = 2**31 - 1

# Each column in memory of its own: a draw reads a few of them whole, and a record of all the
# facts would bring the others along from memory.
_FACTS: dict[str, np.dtype[Any]] = {name: PACK[name] for name in PACK.names or ()}
_STATE: dict[str, np.dtype[Any]] = {
    "seq": np.dtype(np.int64),
    "uses": np.dtype(np.int32),
    "last_use": np.dtype(np.int32),
    "pinned": np.dtype(np.bool_),
    "advantage": np.dtype(np.float32),
    "priority": np.dtype(np.float32),
    "ess": np.dtype(np.float32),
    "ratio": np.dtype(np.float32),
}

_Arrays = dict[str, NDArray[Any]]
Places: TypeAlias = slice | NDArray[np.int64]  # some rows of a pool, by position


class Facts(Mapping[str, NDArray[Any]]):
    """What was known of the rows when they were written, by name of the column (see PACK)."""

    def __init__(self, columns: _Arrays, size: int) -> None:
        self._columns = columns
        self._size = size

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name][: self._size]

    def __iter__(self) -> Iterator[str]:
        return iter(_FACTS)

    def __len__(self) -> int:
        return len(_FACTS)


class Attached:
    """A column of somebody who follows the pool: it grows and moves with the rows, 0 for new ones.

    `values` [len(pool)] may be written to, and is valid until the next refresh.
    """

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool = pool
        self._name = name

    @property
    def values(self) -> NDArray[Any]:
        """The column as it is now."""
        return self._pool._columns[self._name][: len(self._pool)]


class Pool:
    """Live rows of a store as parallel arrays, in order of arrival.

    `refresh` brings it up to date, from whatever process the changes came. Views returned by
    the properties are valid until the next refresh and must not be written to. Whoever keeps
    figures on the rows attaches columns and reads the `journal` for what to look at again; when
    `moves` has changed, rows that did not change have other positions than before. With a `run`
    the last use of a row is the run's own: in a shared store, steps of others do not compare.
    """

    def __init__(self, store: StoreReader, run: RunId | None = None) -> None:
        self._store = store
        self._run = run
        self._change: int | None = None
        self._size = 0
        self._attached: dict[str, np.dtype[Any]] = {}
        self._columns = self._empty(0)
        self._live: dict[int, int] = {}  # newest version by run number, of live rows only
        self._newest: dict[int, int] = {}  # and of rows that are gone as well
        self._before: dict[RunId, dict[RunId, int]] = {}  # what runs noted; see `lineage`
        self.journal = Journal()
        self.moves = 0
        self.tasks: dict[int, Task] = {}
        self._last_task = 0
        self.runs: dict[int, RunId] = {}
        self.provenances: dict[int, Provenance] = {}
        self.lost: dict[str, str] = {}  # since the last refresh: rows `read` had to leave, and why
        self.refresh()

    def __len__(self) -> int:
        return self._size

    @property
    def seq(self) -> NDArray[np.int64]:
        """Order of arrival; names the row towards the store."""
        return self._columns["seq"][: self._size]

    @property
    def facts(self) -> Facts:
        """Everything that was known when the rows were written: columns named as in PACK."""
        return Facts(self._columns, self._size)

    @property
    def uses(self) -> NDArray[np.int32]:
        """How often the row was used: once for each draw that an update applied."""
        return self._columns["uses"][: self._size]

    @property
    def last_use(self) -> NDArray[np.int32]:
        """The latest such step, -1 for none; of the pool's own run, if it has one."""
        return self._columns["last_use"][: self._size]

    @property
    def pinned(self) -> NDArray[np.bool_]:
        """Rows that must not be evicted."""
        return self._columns["pinned"][: self._size]

    @property
    def advantage(self) -> NDArray[np.float32]:
        """The advantage that the row last trained with, NaN before its first score."""
        return self._columns["advantage"][: self._size]

    @property
    def priority(self) -> NDArray[np.float32]:
        """The priority (>= 0) of its newest score, NaN before the first."""
        return self._columns["priority"][: self._size]

    @property
    def ess(self) -> NDArray[np.float32]:
        """Effective sample size (0, 1] of its last policy ratios, NaN where never measured."""
        return self._columns["ess"][: self._size]

    @property
    def ratio(self) -> NDArray[np.float32]:
        """The 99 % quantile of its last policy ratios, NaN where never measured."""
        return self._columns["ratio"][: self._size]

    def newest(self, number: int) -> int:
        """The newest policy version that sampled rows of a run that has live ones; -1 for none.

        Rows that left the pool count: those that stay must not grow younger by it.
        """
        return self._newest.get(number, -1)

    def attach(self, kind: type[np.generic]) -> Attached:
        """Make a column that goes along with the rows, 0 at first."""
        name = f"attached-{len(self._attached)}"
        self._attached[name] = np.dtype(kind)
        self._columns[name] = np.zeros(len(self._columns["seq"]), kind)
        return Attached(self, name)

    def find(self, seqs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of those of the rows [seq] that are in the pool."""
        places = np.searchsorted(self.seq, seqs)
        inside = places < self._size
        places, seqs = places[inside], seqs[inside]
        return np.asarray(places[self.seq[places] == seqs])

    def ages(self, version: int, run: RunId, rows: Places = _ALL) -> NDArray[np.int32]:
        """Age of rows for a run at a policy version; -1 where no policy sampled them.

        Versions of different runs do not compare. A run whose rows were inherited ended when this
        one began, or as many versions before as were noted then. Any other counts as one that
        ended just before: its newest row is one version older than version 0.
        """
        sampled_at = self.facts["version"][rows]
        # What a row's version is subtracted from, by the number of its run.
        now = np.full(max(self.runs, default=0) + 1, version, dtype=np.int64)
        before = self._noted(run)
        for number, id_ in self.runs.items():
            if id_ != run:
                now[number] = version + max(before.get(id_, 0), 1 + self.newest(number))
        if now.max() <= _OLDEST:
            now = now.astype(np.int32)  # half the memory to go through, in all runs but absurd ones
        alone = len(self._live) == 1  # the usual case, and there is no need to look
        since = now[next(iter(self._live))] if alone else now[self.facts["run"][rows]]
        age: NDArray[np.int32] = np.minimum(since - sampled_at, _OLDEST).astype(np.int32)
        age[sampled_at < 0] = -1
        return age

    def read(self, positions: NDArray[np.int64]) -> dict[int, Trajectory]:
        """Read the trajectories at these positions that can be read; `lost` tells of the others.

        A frame may be damaged, and another process may have fenced or removed rows meanwhile.
        """
        seqs = self.seq[positions].tolist()
        names = names_of(self._store, seqs)
        found = read_rows(self._store, list(names.values()))
        self.lost |= {f"row {seq}": GONE for seq in seqs if seq not in names} | found.lost
        places = zip(positions.tolist(), (names.get(seq) for seq in seqs), strict=True)
        return {place: found.rows[id_] for place, id_ in places if id_ in found.rows}

    def ids(self, positions: Sequence[int] | NDArray[np.int64]) -> list[TrajectoryId]:
        """Name the trajectories at these positions."""
        return self._store.ids_of([int(self.seq[position]) for position in positions])

    def names(self, positions: NDArray[np.int64]) -> list[TrajectoryId]:
        """Name those of the trajectories at these positions that nobody removed meanwhile."""
        return list(names_of(self._store, self.seq[positions].tolist()).values())

    def imagine_uses(self, positions: Sequence[int], step: int) -> None:
        """Count a use of these rows here and nowhere else, for simulations.

        The next refresh after the row changed in the store forgets it.
        """
        self._columns["uses"][list(positions)] += 1
        self._columns["last_use"][list(positions)] = step
        self.journal.write(self.seq[list(positions)])

    def imagine_rested(self) -> None:
        """Let all rows have rested here and nowhere else: for steps that count from 1 again."""
        self._columns["last_use"][: self._size] = -1
        self.journal.write(self.seq)

    def refresh(self) -> None:
        """Follow the store: rows added, used, pinned, evicted, fenced since the last refresh."""
        changes = self._store.changes(self._change, self._run)
        self.lost = {}
        if changes.reset:
            self._size, self._columns, self._live = 0, self._empty(0), {}
            self.moves += 1
        self._remove(changes.gone)
        for block in changes.added:
            self._upsert(block)
        # After the rows: whatever they refer to was committed with them or before.
        found = self._store.tasks(after=self._last_task)
        self._last_task = max(found, default=self._last_task)
        self.tasks |= found
        self.runs = {number: run.id for number, run in self._store.runs().items()}
        self.provenances = self._store.provenances()
        self._change = changes.change
        self._newest, self._before = {}, {}
        for number, live in self._live.items():
            known = self._store.newest_version(self.runs[number]) if live >= 0 else None
            self._newest[number] = live if known is None else max(live, known)

    def _noted(self, run: RunId) -> dict[RunId, int]:
        """What lies before a run, read once a refresh."""
        if run not in self._before:
            self._before[run] = lineage.noted(self._store, run)
        return self._before[run]

    def _remove(self, gone: NDArray[np.int64]) -> None:
        places = self.find(gone) if gone.size and self._size else gone[:0]
        if places.size == 0:
            return
        runs, versions = self.facts["run"][places], self.facts["version"][places]
        lost = {n for n in set(runs.tolist()) if versions[runs == n].max() == self._live[n]}
        # What lies before the first of them stays where it is.
        first = int(places.min())
        keep = np.ones(self._size - first, np.bool_)
        keep[places - first] = False
        kept = first + int(np.count_nonzero(keep))
        for column in self._columns.values():
            column[first:kept] = column[first : self._size][keep]
        self._size = kept
        self.moves += 1
        for number in lost:
            del self._live[number]
            left = self.facts["run"] == number
            self._see_versions(self.facts["run"][left], self.facts["version"][left])

    def _see_versions(self, runs: NDArray[Any], versions: NDArray[Any]) -> None:
        for number in np.unique(runs):
            newest = int(versions[runs == number].max())
            self._live[int(number)] = max(newest, self._live.get(int(number), -1))

    def _upsert(self, block: Columns) -> None:
        """Overwrite rows that are known, append the others; `seq` stays ascending."""
        self.journal.write(block.seq)
        given = {name: getattr(block, name) for name in _STATE}
        given |= {name: block.pack[name] for name in _FACTS}
        position = np.searchsorted(self.seq, block.seq)
        inside = position < self._size
        known = np.zeros(len(block.seq), dtype=np.bool_)
        known[inside] = self.seq[position[inside]] == block.seq[inside]
        for name, values in given.items():
            self._columns[name][position[known]] = values[known]
        new = ~known
        count = int(np.count_nonzero(new))
        if count == 0:
            return
        self._reserve(self._size + count)
        for name, column in self._columns.items():
            column[self._size : self._size + count] = given[name][new] if name in given else 0
        in_order = self._size == 0 or block.seq[new][0] > self._columns["seq"][self._size - 1]
        self._size += count
        self._see_versions(given["run"], given["version"])
        if not in_order:
            self._sort()

    def _reserve(self, size: int) -> None:
        if size <= len(self._columns["seq"]):
            return
        larger = self._empty(max(size, int(len(self._columns["seq"]) * _SPARE)))
        for name, column in self._columns.items():
            larger[name][: self._size] = column[: self._size]
        self._columns = larger

    def _sort(self) -> None:
        """Restore the order after a row came back (unbanned, released, un-evicted by a fence)."""
        order = np.argsort(self.seq, kind="stable")
        for column in self._columns.values():
            column[: self._size] = column[: self._size][order]
        self.moves += 1

    def _empty(self, size: int) -> _Arrays:
        kinds = _STATE | _FACTS | self._attached
        return {name: np.empty(size, dtype=kind) for name, kind in kinds.items()}
