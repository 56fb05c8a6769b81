"""Putting trajectories into the tables, inside a transaction that the writer holds."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.errors import CorruptFrame, StoreConflict
from recollect.store import codec
from recollect.store.tables import columns, schema, state
from recollect.store.tables.database import Database
from recollect.store.tables.numbers import Numbers
from recollect.store.tables.rows import marks
from recollect.trajectory import Trajectory

_BLOCK = 256  # rows per statement: enough to be fast, few enough to keep memory flat
_COLUMNS = (
    "seq",
    *schema.TRAJECTORY_FACTS,
    *state.State._fields,
    *("changed", "at"),
)
_INSERT = f"INSERT INTO trajectories ({', '.join(_COLUMNS)}) VALUES ({marks(len(_COLUMNS))})"


class Arrivals:
    """Trajectories on their way into the store; counts what was new and what was known."""

    def __init__(
        self,
        connection: Database,
        numbers: Numbers,
        at: float,
        change: int,
        compress: bool,
    ) -> None:
        self._connection = connection
        self._numbers = numbers
        self._at = at
        self._change = change
        self._compress = compress
        self.added = 0
        self.known = 0

    def put(self, trajectories: Sequence[Trajectory]) -> None:
        """Insert what is new; what is stored with the same content is left, other refused."""
        for start in range(0, len(trajectories), _BLOCK):
            self._put_block(trajectories[start : start + _BLOCK])

    def _put_block(self, block: Sequence[Trajectory]) -> None:
        new = self._new(block)
        past = state.derive(self._connection, new) if self._has_past() else {}
        first = self._connection.next_number("trajectories", "seq")
        rows: list[tuple[object, ...]] = []
        frames: list[tuple[int, bytes]] = []
        for seq, t in enumerate(new.values(), first):
            frame = codec.encode(t, self._compress)
            facts = trajectory_facts(t, frame, self._numbers, self._at)
            rows.append((seq, *facts, *past.get(t.id, state.UNTOUCHED), self._change, self._at))
            frames.append((seq, frame))
        self._connection.executemany(_INSERT, rows)
        self._connection.executemany("INSERT INTO payloads VALUES (?, ?)", frames)
        self.added += len(rows)

    def _new(self, block: Sequence[Trajectory]) -> dict[str, Trajectory]:
        """Pick out what is not stored, by id; refuse other content under a known id."""
        stored = self._stored([t.id for t in block])
        new: dict[str, Trajectory] = {}
        for t in block:
            if t.id not in stored and t.id not in new:
                new[t.id] = t
                continue
            same = new[t.id] if t.id in new else self._read(stored[t.id])
            if same != t:
                raise StoreConflict(self._numbers.path, "trajectory", t.id)
            self.known += 1
        return new

    def _stored(self, ids: Sequence[str]) -> dict[str, int]:
        sql = f"SELECT id, seq FROM trajectories WHERE fence = 0 AND id IN ({marks(len(ids))})"
        return dict(self._connection.execute(sql, ids).fetchall())

    def _read(self, seq: int) -> Trajectory | None:
        """Read a stored record to compare it; bytes may differ where compression was switched."""
        row = self._connection.execute("SELECT frame FROM payloads WHERE seq = ?", [seq]).fetchone()
        try:
            return None if row is None else codec.decode(row[0])
        except CorruptFrame:
            return None

    def _has_past(self) -> bool:
        """Tell whether an id that is not stored may have uses: one fenced or reclaimed before."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM fences) OR "
            "(SELECT value FROM meta WHERE key = 'reclaimed') > 0"
        )
        return bool(self._connection.execute(sql).fetchone()[0])


def trajectory_facts(
    trajectory: Trajectory, frame: bytes, numbers: Numbers, at: float
) -> tuple[object, ...]:
    """Work out the metadata columns of a trajectory, in the order of TRAJECTORY_FACTS."""
    t = trajectory
    run, task = numbers.run(t.run), numbers.task(t.task)
    provenance = numbers.provenance((t.tokenizer, t.environment_version, t.reward_version), at)
    entropy, logprob, sampled = t.mean_entropy, t.mean_logprob, t.sampled_count
    return (
        *(t.id, run, t.step, task, t.group, t.origin.value, t.policy_version, t.reward.value),
        *(int(t.success), t.tokens.size, sampled, entropy, logprob, provenance),
        *(len(frame), schema.frame_crc(codec.checksum(frame), at)),
        columns.pack(t, (task, run, provenance), (sampled, len(frame)), (entropy, logprob)),
    )
