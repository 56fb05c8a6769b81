"""Arbitrary valid records survive the codec and the store, bit for bit.

A failure prints the smallest example and a `@reproduce_failure` line that replays it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory import folder_in_memory
from properties.records import batches, trajectories
from recollect.errors import CorruptFrame
from recollect.proof.logical import logical_dump
from recollect.store import codec, open_reader, open_store
from recollect.store.records import Batch
from recollect.store.sqlite import SqliteStore
from recollect.trajectory import Trajectory

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
MANY = settings(deadline=None, print_blob=True, suppress_health_check=SLOW, max_examples=60)
SOME = settings(MANY, max_examples=25)


@contextmanager
def new_store(compress: bool = False) -> Iterator[SqliteStore]:
    with folder_in_memory() as folder, open_store(folder / "pool.db", compress=compress) as store:
        yield store


@given(row=trajectories(), compress=st.booleans())
@MANY
def test_the_codec_gives_back_what_it_was_given(row: Trajectory, compress: bool) -> None:
    frame = codec.encode(row, compress)
    assert codec.decode(frame) == row
    assert codec.encode(codec.decode(frame), compress) == frame
    assert codec.belongs(frame, row.id)


@given(row=trajectories(), data=st.data())
@MANY
def test_the_codec_refuses_any_change(row: Trajectory, data: st.DataObject) -> None:
    """Up to three bytes changed anywhere, or any other length."""
    frame = bytearray(codec.encode(row))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    length = data.draw(st.integers(0, len(frame)))
    original = codec.encode(row)
    for damaged in (bytes(frame), original[:length], original + bytes(frame[:length])):
        if damaged != original:
            with pytest.raises(CorruptFrame):
                codec.decode(damaged)


@given(garbage=st.binary(max_size=200))
@MANY
def test_garbage_is_never_a_frame(garbage: bytes) -> None:
    for frame in (garbage, b"RCLT" + garbage):
        with pytest.raises(CorruptFrame):
            codec.decode(frame)


@given(batch=batches(), compress=st.booleans())
@SOME
def test_the_store_gives_back_what_it_was_given(batch: Batch, compress: bool) -> None:
    with new_store(compress) as store:
        store.commit(batch)
        before = logical_dump(store)
        assert before["trajectories"] == list(batch.trajectories)
        run, task = batch.runs[0], batch.tasks[0]
        assert list(store.runs().values()) == [run]
        assert store.task(task.key) == task
        assert store.groups(run.id, batch.groups[0].step) == list(batch.groups)
        assert store.task_states(run.id) == list(batch.task_states)
        assert {d.slot: d for d in store.draws()} == {d.slot: d for d in batch.draws}
        assert {u.slot: u for u in store.uses()} == {u.slot: u for u in batch.uses}
        assert store.marks(batch.trajectories[0].id) == list(batch.marks)
        assert store.notes() == list(batch.notes)
        assert batch.links[0] in store.links()
        assert store.events(run.id) == list(batch.events)
        assert store.cursor(run.id) == batch.cursors[0]
        assert list(store.verify()) == []
        with open_reader(store.path) as reader:
            assert logical_dump(reader) == before


@given(batch=batches())
@SOME
def test_the_same_batch_again_changes_nothing(batch: Batch) -> None:
    """A person's marks are said twice when they are sent twice; everything else is once."""
    owned = [mark for mark in batch.marks if mark.run is not None]
    again = Batch(**{**{f: getattr(batch, f) for f in batch.__slots__}, "marks": owned})
    with new_store() as store:
        store.commit(batch)
        before = logical_dump(store)
        assert store.commit(again).added == 0
        assert logical_dump(store) == before
        assert list(store.verify()) == []
