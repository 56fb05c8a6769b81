"""Reading rows: by id, by page, by filter, by prefix, and what changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from factories import TASKS, FakeRun, make_trajectory, person_mark
from recollect.errors import AmbiguousId, BadQuery, StoreError, UnknownId
from recollect.proof.logical import all_rows
from recollect.store import codec
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Query, Row
from recollect.store.unchecked import unchecked
from recollect.trajectory import Trajectory
from recollect.types import Action, Origin, RunId, Status, TaskKey, TrajectoryId
from store.place import ANY, write_steps

FAKE = FakeRun(seed=31)
OTHER = FakeRun(seed=32, id=RunId("run-b"))
DEMO = make_trajectory(9, run=OTHER.id, step=8, origin=Origin.DEMO)

# Each filter of Query with a value that some rows pass and some do not, and what it means.
FILTERS: dict[str, tuple[dict[str, Any], Callable[[Row], bool]]] = {
    "ids": ({"ids": FAKE.ids(1)}, lambda r: r.id in FAKE.ids(1)),
    "task": ({"task": TASKS[1].key}, lambda r: r.task == TASKS[1].key),
    "run": ({"run": OTHER.id}, lambda r: r.run == OTHER.id),
    "domain": ({"domain": "desk:retail"}, lambda r: r.domain == "desk:retail"),
    "origin": ({"origin": Origin.GUIDED}, lambda r: r.origin is Origin.GUIDED),
    "demo": ({"origin": Origin.DEMO}, lambda r: r.origin is Origin.DEMO),
    "live": ({"status": Status.LIVE}, lambda r: r.status is Status.LIVE),
    "banned": ({"status": Status.BANNED}, lambda r: r.status is Status.BANNED),
    "success": ({"success": True}, lambda r: r.success),
    "failure": ({"success": False}, lambda r: not r.success),
    "pinned": ({"pinned": True}, lambda r: r.pinned),
    "unpinned": ({"pinned": False}, lambda r: not r.pinned),
    "min_reward": ({"min_reward": 0.5}, lambda r: r.reward >= 0.5),
    "max_reward": ({"max_reward": 0.5}, lambda r: r.reward <= 0.5),
    "min_version": ({"min_version": 2}, lambda r: (r.policy_version or 0) >= 2),
    "max_version": (
        {"max_version": 2},
        lambda r: r.policy_version is not None and r.policy_version <= 2,
    ),
    "min_uses": ({"min_uses": 1}, lambda r: r.uses >= 1),
    "max_uses": ({"max_uses": 0}, lambda r: r.uses <= 0),
    "min_step": ({"min_step": 3}, lambda r: r.step >= 3),
    "max_step": ({"max_step": 3}, lambda r: r.step <= 3),
    "several": (
        {"success": True, "min_step": 1, "max_step": 3, "max_uses": 1},
        lambda r: r.success and 1 <= r.step <= 3 and r.uses <= 1,
    ),
}


def fill(store: Store) -> list[Row]:
    """Two runs, a demo, a ban and a pin; returns all rows in order of arrival."""
    write_steps(store, FAKE, 5)
    write_steps(store, OTHER, 3)
    marks = [person_mark(FAKE.row_id(0, 0), Action.BAN), person_mark(FAKE.row_id(0, 1), Action.PIN)]
    store.commit(Batch(trajectories=[DEMO], marks=marks))
    return all_rows(store)


class ReadingPromises:
    """What `get`, `frames`, `rows`, `count`, `resolve`, `ids_of` and `changes` promise."""

    # -- by id -----------------------------------------------------------------------------

    def test_get_keeps_the_order_asked(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 3)
        ids = [*FAKE.ids(2), *FAKE.ids(0), *FAKE.ids(2)[:1]]
        found = reader.get(ids)
        assert [row.id for row in found] == ids
        assert found[4:8] == FAKE.trajectories(0)
        assert reader.get([]) == []

    def test_frames_are_what_codec_reads(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 2)
        frames = reader.frames(FAKE.ids(1)[::-1])
        assert [codec.decode(frame) for frame in frames] == FAKE.trajectories(1)[::-1]

    @pytest.mark.parametrize("method", ["get", "frames"])
    def test_an_unknown_id_is_named(self, store: Store, method: str) -> None:
        write_steps(store, FAKE, 1)
        with pytest.raises(UnknownId) as caught:
            getattr(store, method)([*FAKE.ids(0), TrajectoryId("nobody")])
        assert caught.value.given == "nobody"

    def test_a_row_says_what_its_trajectory_says(self, store: Store) -> None:
        for row in fill(store):
            (stored,) = store.get([row.id])
            assert_row_matches(row, stored)
            (frame,) = store.frames([row.id])
            assert row.bytes == len(frame)

    # -- pages -----------------------------------------------------------------------------

    def test_pages_are_complete_and_in_order(self, store: Store) -> None:
        everything = [row.id for row in fill(store)]
        for limit in (1, 2, 3, 7, 1000):
            assert ids_by_pages(store, limit, newest_first=False) == everything
            assert ids_by_pages(store, limit, newest_first=True) == everything[::-1]

    def test_rows_that_arrive_meanwhile_do_not_disturb_pages(self, store: Store) -> None:
        before = [row.id for row in fill(store)]
        first = store.rows(ANY, limit=5, newest_first=True)
        store.commit(FAKE.step(5))
        rest = store.rows(ANY, after=first.next, limit=1000, newest_first=True)
        assert [row.id for row in (*first.rows, *rest.rows)] == before[::-1]

    def test_a_full_last_page_ends_the_list(self, store: Store) -> None:
        total = len(fill(store))
        assert store.rows(ANY, limit=total).next is None
        assert store.rows(ANY, limit=total - 1).next is not None
        assert store.rows(ANY, after=10**9).rows == ()

    def test_a_page_has_at_least_one_row(self, store: Store) -> None:
        write_steps(store, FAKE, 1)
        for limit in (0, -1):
            with pytest.raises(ValueError, match="limit"):
                store.rows(ANY, limit=limit)

    # -- filters ---------------------------------------------------------------------------

    def test_every_filter(self, store: Store) -> None:
        everything = fill(store)
        for name, (changes, passes) in FILTERS.items():
            query = replace(ANY, **changes)
            expected = [row for row in everything if passes(row)]
            assert 0 < len(expected) < len(everything), f"{name} must tell rows apart here"
            assert all_rows(store, query, page=3) == expected, name
            assert store.count(query) == len(expected), name
            newest = store.rows(query, limit=1000, newest_first=True).rows
            assert list(newest) == expected[::-1], name

    def test_no_filter_is_forgotten(self) -> None:
        tried = {field for changes, _ in FILTERS.values() for field in changes}
        assert tried == {field.name for field in fields(Query)} - {"fenced"}

    def test_live_rows_are_the_default(self, store: Store) -> None:
        everything = fill(store)
        assert all_rows(store, Query()) == [r for r in everything if r.status is Status.LIVE]

    def test_no_ids_match_nothing(self, store: Store) -> None:
        fill(store)
        assert store.count(Query(ids=[])) == 0
        assert store.rows(Query(ids=[TrajectoryId("nobody")])).rows == ()

    def test_more_ids_than_a_statement_has_places_for(self, store: Store) -> None:
        everything = fill(store)
        ids = [row.id for row in everything[1::2]]
        crowd = [TrajectoryId(f"nobody-{number}") for number in range(70_000)]
        odd = [TrajectoryId(everything[0].id + end) for end in ("\0x", '"', "\\", "']")]
        query = replace(ANY, ids=[*odd, *crowd, *ids, ids[0]])
        assert all_rows(store, query, page=5) == everything[1::2]
        assert store.count(query) == len(ids)
        with pytest.raises(BadQuery):
            store.count(Query(ids=[TrajectoryId("\udcff"), *crowd]))

    def test_values_that_no_row_can_have(self, store: Store) -> None:
        for query in (Query(domain="\udcff"), Query(min_uses=2**70)):
            with pytest.raises(BadQuery) as caught:
                store.count(query)
            assert "sqlite_schema" not in caught.value.hint  # which PostgreSQL does not have

    def test_values_are_bound_not_pasted(self, store: Store) -> None:
        total = len(fill(store))
        for text in ("' OR '1'='1", "x'; DROP TABLE trajectories; --", '" OR 1=1 --', "%", "_"):
            assert store.count(Query(domain=text)) == 0
            assert store.count(Query(run=RunId(text), task=TaskKey(text))) == 0
        assert store.count(ANY) == total

    # -- prefixes --------------------------------------------------------------------------

    def test_every_unique_prefix_is_completed(self, store: Store) -> None:
        ids = [row.id for row in fill(store)]
        for id_ in ids[:8]:
            for length in range(1, len(id_) + 1):
                prefix = id_[:length]
                matches = [other for other in ids if other.startswith(prefix)]
                if len(matches) == 1:
                    assert store.resolve(prefix) == id_
                    continue
                with pytest.raises(AmbiguousId) as caught:
                    store.resolve(prefix)
                assert set(caught.value.matches) <= set(matches)

    def test_an_id_that_begins_another_is_itself(self, store: Store) -> None:
        store.commit(FAKE.setup())
        names = ["ab", "abc", "abd"]
        rows = [unchecked(Trajectory)(**_fields(make_trajectory(1), id=name)) for name in names]
        store.commit(Batch(trajectories=rows))
        assert store.resolve("ab") == "ab"
        assert store.resolve("abc") == "abc"
        with pytest.raises(AmbiguousId):
            store.resolve("a")

    def test_an_unknown_prefix(self, store: Store) -> None:
        store.commit(FAKE.setup())
        store.commit(Batch(trajectories=[make_trajectory(1)]))
        for prefix in ("", "zzzz", "%", "_", "0' OR 1=1", "\U0010ffff"):
            with pytest.raises(UnknownId):
                store.resolve(prefix)
        with pytest.raises(StoreError):
            store.resolve("\udcff")

    def test_ids_of_keeps_the_order_asked(self, store: Store) -> None:
        rows = fill(store)[::-1]
        assert store.ids_of([row.seq for row in rows]) == [row.id for row in rows]
        assert store.ids_of([]) == []
        with pytest.raises(UnknownId, match="99999"):
            store.ids_of([rows[0].seq, 99999])

    # -- changes ---------------------------------------------------------------------------

    def test_the_first_look_is_a_reset_with_all_live_rows(self, store: Store) -> None:
        live = {row.seq for row in fill(store) if row.status is Status.LIVE}
        changes = store.changes(None)
        assert changes.reset
        assert changes.gone.size == 0
        assert seqs(changes.added) == live

    def test_nothing_new_is_nothing(self, store: Store, reader: StoreReader) -> None:
        fill(store)
        change = reader.changes(None).change
        again = reader.changes(change)
        assert (again.change, again.reset, again.gone.size) == (change, False, 0)
        assert seqs(again.added) == set()

    def test_only_what_changed_is_told(self, store: Store, reader: StoreReader) -> None:
        rows = {row.id: row.seq for row in fill(store)}
        change = reader.changes(None).change
        used, banned, unbanned = FAKE.row_id(1, 1), FAKE.row_id(1, 2), FAKE.row_id(0, 0)
        draw = replace(FAKE.step(4).draws[0], step=6, trajectory=used)
        use = replace(FAKE.step(4).uses[0], step=6, slot=draw.slot, trajectory=used)
        marks = [person_mark(banned, Action.BAN), person_mark(unbanned, Action.UNBAN)]
        new = make_trajectory(1, step=7)
        store.commit(Batch(draws=[draw], uses=[use], marks=marks, trajectories=[new]))
        after = reader.changes(change)
        assert not after.reset
        assert after.gone.tolist() == [rows[banned]]
        new_seq = all_rows(store, Query(ids=[new.id]))[0].seq
        assert seqs(after.added) == {rows[used], rows[unbanned], new_seq}

    def test_last_uses_may_be_those_of_one_run(self, store: Store, reader: StoreReader) -> None:
        rows = {row.id: row for row in fill(store)}
        used = next(use for use in FAKE.step(4).uses if rows[use.trajectory].status is Status.LIVE)
        draw = next(draw for draw in FAKE.step(4).draws if draw.slot == used.slot)
        change = reader.changes(None).change
        later = {"run": OTHER.id, "step": 99, "trajectory": used.trajectory}
        store.commit(Batch(draws=[replace(draw, **later)], uses=[replace(used, **later)]))
        seq = rows[used.trajectory].seq
        for run, step in ((None, 99), (OTHER.id, 99), (FAKE.id, 4), (RunId("nobody"), -1)):
            for since in (None, change):
                blocks = list(reader.changes(since, run).added)
                found = {s: n for b in blocks for s, n in zip(b.seq, b.last_use, strict=True)}
                assert found[seq] == step

    def test_a_change_number_from_the_future_means_start_over(self, store: Store) -> None:
        fill(store)
        assert store.changes(10**6).reset


def ids_by_pages(store: Store, limit: int, newest_first: bool) -> list[str]:
    """List all ids, a page at a time."""
    seen: list[str] = []
    after = None
    while True:
        page = store.rows(ANY, after=after, limit=limit, newest_first=newest_first)
        seen += [row.id for row in page.rows]
        after = page.next
        if after is None:
            return seen
        assert len(page.rows) == limit


def seqs(blocks: Any) -> set[int]:
    found = [np.asarray(block.seq) for block in blocks]
    assert all(np.all(np.diff(block) > 0) for block in found)
    return {int(seq) for block in found for seq in block}


def assert_row_matches(row: Row, t: Trajectory) -> None:
    assert (row.id, row.task, row.run, row.step, row.group) == (
        t.id,
        t.task,
        t.run,
        t.step,
        t.group,
    )
    assert (row.origin, row.policy_version, row.success) == (t.origin, t.policy_version, t.success)
    assert (row.reward, row.entropy, row.logprob) == (
        t.reward.value,
        t.mean_entropy,
        t.mean_logprob,
    )
    assert (row.tokens, row.sampled) == (t.tokens.size, t.sampled_count)


def _fields(t: Trajectory, **changes: Any) -> dict[str, Any]:
    return {f.name: getattr(t, f.name) for f in fields(t)} | changes
