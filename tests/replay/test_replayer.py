from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from recollect.ledger import Mark, Score, TaskState, Use
from recollect.replay.book import Result, Retirement, TaskBook
from recollect.replay.choice import Choice
from recollect.replay.eligibility import Rules
from recollect.replay.eviction import Keeping
from recollect.replay.pick import Pick
from recollect.replay.policy import Amounts, Budget
from recollect.replay.replayer import Replayer
from recollect.replay.starting import Triggers
from recollect.replay.weights import Weighing, priority_weights
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteStore
from recollect.types import Action, RunId, Status, TrajectoryId, group_id

from .pools import (
    NEVER,
    PRINTS,
    RUN,
    TASKS,
    Plant,
    book_of,
    fresh,
    make_replayer,
    planted,
    task,
)

A, B, C = TASKS[:3]
MIX = Amounts(mix_ratio=0.5)
REPAIR = Amounts(repair_rows=1)
BUFFER = Amounts(buffer_updates=2, buffer_rows=2)
OTHER = RunId("run-b")


def names(picks: Iterable[Pick]) -> list[str]:
    return [pick.trajectory.id for pick in picks]


def begun(replayer: Replayer, step: int = 1, version: int = 1) -> Replayer:
    replayer.begin(step, 100, version)
    return replayer


# -- mix ----------------------------------------------------------------------------------


def test_mixed_rows_are_successes_of_open_tasks_and_join_the_steps_group() -> None:
    plants = [Plant(A), Plant(A, success=False), Plant(B, success=False), Plant(task(99)), Plant(C)]
    with planted(*plants) as store:
        book = book_of((C, 4, 4), retired=[C])
        mixed = begun(make_replayer(store, MIX, book=book), step=3).mix(10)
        assert [each.task for each in mixed] == [A]
        (pick,) = mixed[0].picks
        assert pick.trajectory.id == "row-0"
        assert pick.group == group_id(RUN, 3, A.key)
        assert (pick.mode, pick.age, pick.probability, pick.weight) == ("mix", 1, 1.0, 1.0)
        assert pick.advantage is None
        written = pick.draw(RUN, 3)
        assert (written.trajectory, written.slot, written.step) == ("row-0", 0, 3)
        assert written.reason == "mix: task at an unknown success rate, newest of 1"


def test_mixing_counts() -> None:
    """Reference 2.9: a pool of 5 and a batch of 10 at 0.5 give 5; of 3, by turns 1 and 2."""
    with planted(*(Plant(each) for each in TASKS)) as store:
        replayer = make_replayer(store, MIX)
        assert len(begun(replayer, 1).mix(10)) == 5
        replayer = make_replayer(store, MIX)
        found = []
        for step in range(4, 8):
            found.append(len(begun(replayer, step).mix(3)))
        assert found == [1, 2, 1, 2]
        assert len(begun(make_replayer(store, MIX)).mix(64)) == 6, "as many as there are"


def test_probabilities_of_tasks_and_rows_multiply() -> None:
    plants = [Plant(A, advantage=1.0), Plant(A, advantage=3.0), Plant(B, advantage=1.0)]
    with planted(*plants) as store:
        book = book_of((A, 4, 8), (B, 5, 8))
        weighing = Weighing("advantage", buckets="gaussian")
        replayer = make_replayer(
            store, Amounts(mix_ratio=0.25), weighing=weighing, book=book, choice="random"
        )
        side = np.exp(-0.5)
        expected = np.array([0.25, 0.75, side]) / (1 + side)
        hits, trials = np.zeros(3), 1500
        for step in range(1, trials + 1):
            ((pick,),) = [each.picks for each in begun(replayer, step).mix(4)]
            row = int(pick.trajectory.id[-1])
            assert pick.probability == pytest.approx(expected[row])
            hits[row] += 1
        spread = np.sqrt(expected * (1 - expected) / trials)
        assert (np.abs(hits / trials - expected) < 5 * spread).all()


def test_several_rows_of_a_task() -> None:
    with planted(Plant(A), Plant(A), Plant(A), Plant(B)) as store:
        amounts = Amounts(mix_ratio=1.0, mix_rows=2)
        mixed = begun(make_replayer(store, amounts)).mix(2)
        assert {each.task.id: names(each.picks) for each in mixed} == {
            A.id: ["row-1", "row-2"],
            B.id: ["row-3"],
        }
        slots = [pick.slot for each in mixed for pick in each.picks]
        assert slots == [0, 1, 2]


def test_tasks_alone_are_visited_when_rows_stay_out() -> None:
    with planted(Plant(A)) as store:
        (each,) = begun(make_replayer(store, Amounts(mix_ratio=1.0, trains=False))).mix(4)
        assert (each.task, each.picks) == (A, ())


def test_no_task_is_mixed_that_no_row_can_be_drawn_for() -> None:
    """At random a row without weight is never drawn; its task would be mixed in for nothing."""
    plants = [Plant(A, advantage=0.0), Plant(B, advantage=2.0)]
    with planted(*plants) as store:
        replayer = make_replayer(
            store, Amounts(mix_ratio=1.0), weighing=Weighing("advantage"), choice="random"
        )
        for step in range(1, 6):
            assert [each.task for each in begun(replayer, step).mix(1)] == [B]


def test_domains_are_held_to_their_share() -> None:
    many = [task(n, "big" if n < 8 else "small") for n in range(10)]
    with planted(*(Plant(each) for each in many)) as store:
        amounts = Amounts(mix_ratio=0.5, max_domain_share=0.5)
        replayer = make_replayer(store, amounts, schedule=many)
        for step in range(1, 20):
            mixed = begun(replayer, step).mix(8)
            assert Counter(each.task.domain for each in mixed) == {"big": 2, "small": 2}


def test_nothing_before_it_has_begun() -> None:
    with planted(Plant(A, advantage=1.0)) as store:
        amounts = Amounts(1.0, repair_rows=1, buffer_updates=1, buffer_rows=1)
        replayer = make_replayer(store, amounts, triggers=Triggers(rows=2))
        begun(replayer)
        assert replayer.mix(4) == []
        assert replayer.repair(fresh(A, 1, False, False)) == []
        assert replayer.buffer() == []


# -- repair -------------------------------------------------------------------------------


def test_only_groups_without_a_success_are_repaired() -> None:
    plants = [Plant(A), Plant(A, success=False), Plant(B), Plant(C, success=False)]
    with planted(*plants) as store:
        replayer = begun(make_replayer(store, REPAIR), step=5)
        rows = [*fresh(A, 5, False, False), *fresh(B, 5, False, True), *fresh(C, 5, False, False)]
        rows += fresh(TASKS[5], 5, False)  # the pool has never heard of it
        (pick,) = replayer.repair(rows)
        assert pick.trajectory.id == "row-0"
        assert pick.group == rows[0].group
        assert pick.mode == "repair"
        assert pick.draw(RUN, 5).reason == "repair: no fresh success, newest of 1"


def test_a_group_with_a_mixed_success_is_not_dead() -> None:
    with planted(Plant(A), Plant(A)) as store:
        replayer = begun(make_replayer(store, Amounts(1.0, repair_rows=1)))
        assert names(replayer.mix(1)[0].picks) == ["row-1"]
        assert replayer.repair(fresh(A, 1, False, False)) == []


def test_several_repairs() -> None:
    with planted(Plant(A), Plant(A), Plant(B)) as store:
        replayer = begun(make_replayer(store, Amounts(repair_rows=2)))
        rows = [*fresh(B, 1, False), *fresh(A, 1, False)]
        assert names(replayer.repair(rows)) == ["row-2", "row-0", "row-1"]


# -- buffer -------------------------------------------------------------------------------


def test_buffers_take_rows_with_an_advantage_each_once() -> None:
    plants = [Plant(A, advantage=v) for v in (1.0, -2.0, 0.0, None, 0.5)]
    with planted(*plants) as store:
        replayer = begun(make_replayer(store, BUFFER), step=2)
        updates = replayer.buffer()
        assert [len(update) for update in updates] == [2, 1]
        picks = [pick for update in updates for pick in update]
        assert sorted(names(picks)) == ["row-0", "row-1", "row-4"]
        advantages = {pick.trajectory.id: pick.advantage for pick in picks}
        assert advantages == {"row-0": 1.0, "row-1": -2.0, "row-4": 0.5}
        assert {pick.group for pick in picks} == {group_id(RUN, 2, A.key, part=1)}
        assert replayer.eligible == 2


def test_buffer_draws_follow_the_priorities_and_are_weighed_for_it() -> None:
    values = [0.5, 1.0, 2.0, 4.0]
    plants = [Plant(A, advantage=-v) for v in values]
    with planted(*plants) as store:
        amounts = Amounts(buffer_updates=1, buffer_rows=2, beta=1.0)
        replayer = make_replayer(store, amounts, weighing=Weighing("advantage", 1.0))
        expected = np.array([*(np.array(values[:3]) / 3.5), 1.0])
        hits, trials = np.zeros(4), 1000
        for step in range(1, trials + 1):
            (picks,) = begun(replayer, step).buffer()
            chances = np.array([pick.probability for pick in picks])
            rows = [int(pick.trajectory.id[-1]) for pick in picks]
            assert chances == pytest.approx(expected[rows])
            weights = priority_weights(chances, 4, 1.0)
            assert [pick.weight for pick in picks] == pytest.approx(weights)
            hits[rows] += 1
        assert hits / trials == pytest.approx(expected, abs=0.08)


def test_buffers_keep_both_quotas() -> None:
    many = [task(n, f"domain-{n // 4}") for n in range(8)]
    plants = [Plant(each, advantage=9.0 if n < 4 else 0.1) for n, each in enumerate(many)] * 3
    with planted(*plants) as store:
        amounts = Amounts(buffer_updates=1, buffer_rows=6, max_per_task=1, max_domain_share=0.5)
        weighing = Weighing("advantage")
        replayer = make_replayer(store, amounts, weighing=weighing, schedule=many)
        domains = {each.key: each.domain for each in many}
        for step in range(1, 20):
            (picks,) = begun(replayer, step).buffer()
            tasks = [pick.trajectory.task for pick in picks]
            assert len(set(tasks)) == 6
            assert Counter(domains[key] for key in tasks) == {"domain-0": 3, "domain-1": 3}


# -- all together -------------------------------------------------------------------------


def everything() -> Amounts:
    return Amounts(0.5, repair_rows=2, buffer_updates=2, buffer_rows=3, beta=0.5)


def one_step(replayer: Replayer, step: int) -> list[Pick]:
    begun(replayer, step, version=step)
    mixed = replayer.mix(4)
    dead = [row for each in TASKS for row in fresh(each, step, False, False)]
    picks = [pick for each in mixed for pick in each.picks] + replayer.repair(dead)
    return picks + [pick for update in replayer.buffer() for pick in update]


def test_no_row_twice_in_a_step_and_every_slot_its_own() -> None:
    rng = np.random.default_rng(6)
    plants = [
        Plant(TASKS[n % 6], success=bool(rng.integers(2)), advantage=float(rng.normal()))
        for n in range(60)
    ]
    with planted(*plants) as store:
        replayer = make_replayer(store, everything(), choice="random")
        for step in range(1, 15):
            picks = one_step(replayer, step)
            assert {pick.mode for pick in picks} == {"mix", "repair", "buffer"}
            assert len(set(names(picks))) == len(picks)
            assert sorted(pick.slot for pick in picks) == list(range(len(picks)))
            assert all(0 < pick.probability <= 1 for pick in picks)


def test_draws_are_a_function_of_seed_step_pool_and_book() -> None:
    plants = [Plant(TASKS[n % 6], advantage=1.0 + n) for n in range(60)]
    with planted(*plants) as store:

        def drawn(seed: int, first: int) -> list[list[tuple[str, float, int]]]:
            replayer = make_replayer(store, everything(), choice="random", seed=seed)
            replayer.start.since = 1
            return [
                [(p.trajectory.id, p.probability, p.slot) for p in one_step(replayer, step)]
                for step in range(first, 7)
            ]

        whole = drawn(1, 1)
        assert drawn(1, 4) == whole[3:], "what was drawn before makes no difference"
        assert drawn(2, 1) != whole
        assert len({str(each) for each in whole}) == len(whole)


def test_one_that_goes_on_draws_what_one_made_anew_does() -> None:
    """Uses, scores, new rows, evictions and rates move on; a resumed run would see the same."""
    rng = np.random.default_rng(4)
    plants = [
        Plant(TASKS[n % 6], advantage=float(rng.normal()), success=n % 3 > 0) for n in range(40)
    ]
    options: dict[str, Any] = {
        "weighing": Weighing("advantage", 0.5, 4.0, "gaussian"),
        "rules": Rules(PRINTS, max_age=6, max_uses=3, cooldown=1),
        "choice": "random",
        "budget": Budget(max_rows=40),
    }
    with planted(*plants) as store:
        going, states = make_replayer(store, everything(), **options), dict[str, TaskState]()
        modes = set[str]()
        for step in range(2, 10):  # the plants were scored in step 1
            book = TaskBook(RUN, NEVER, list(states.values()))
            anew = make_replayer(store, everything(), book=book, **options)
            anew.start.since = going.start.since
            picks, again = one_step(going, step), one_step(anew, step)
            assert [told(pick) for pick in picks] == [told(pick) for pick in again]
            assert going.eligible == anew.eligible
            modes |= {pick.mode for pick in picks}
            each = TASKS[step % 6]
            rows = fresh(each, step, True, False)
            changed, marks = going.finish([Result(each.key, 1, 2)], rows)
            store.commit(
                Batch(
                    trajectories=rows,
                    draws=[pick.draw(RUN, step) for pick in picks],
                    uses=[Use(RUN, step, pick.slot, pick.trajectory.id) for pick in picks],
                    scores=[
                        Score(RUN, step, pick.trajectory.id, size := float(rng.normal()), abs(size))
                        for pick in picks
                    ],
                    marks=marks,
                )
            )
            states |= {state.task: state for state in changed}
        assert modes == {"mix", "repair", "buffer"}


def told(pick: Pick) -> tuple[object, ...]:
    """Everything that a draw says, to the bit."""
    chance, weight = pick.probability.hex(), pick.weight.hex()
    return pick.trajectory.id, pick.slot, pick.group, pick.age, pick.reason, chance, weight


# -- finish -------------------------------------------------------------------------------


def test_states_start_and_marks() -> None:
    with planted(Plant(A)) as store:
        book = TaskBook(RUN, Retirement(True, 2, 5))
        replayer = make_replayer(
            store, MIX, book=book, keeping=Keeping(0, 1), triggers=Triggers(1, success=0.5)
        )
        begun(replayer, 3)
        rows = [*fresh(A, 3, True, True), *fresh(B, 3, True, False), *fresh(C, 3, False)]
        results = [Result(A.key, 2, 2), Result(B.key, 1, 2), Result(C.key, 0, 1)]
        states, marks = replayer.finish(results, rows)
        assert [(state.task, state.retired, state.step) for state in states] == [
            (A.key, True, 3),
            (B.key, False, 3),
            (C.key, False, 3),
        ]
        assert replayer.start.solved, "3 of 5 rows"
        outside = [rows[0].id, rows[1].id, rows[4].id]
        assert [(mark.trajectory, mark.action) for mark in marks] == [
            (id_, Action.EVICT) for id_ in outside
        ]
        assert {(mark.run, mark.step) for mark in marks} == {(RUN, 3)}
        begun(replayer, 4)
        assert replayer.mix(2) == [], "its only task has just retired"


def gone(replayer: Replayer, arriving: int = 0) -> dict[str, str]:
    rows = fresh(TASKS[5], 9, *([True] * arriving))
    results = [Result(TASKS[5].key, arriving, arriving)] if arriving else []
    _, marks = replayer.finish(results, rows)
    return {mark.trajectory: mark.reason for mark in marks}


def test_rows_that_were_drawn_are_not_the_first_to_go() -> None:
    """The best of a pool are drawn most: a budget must not take them for rows of no use."""
    plants = [Plant(A, advantage=v) for v in (5.0, 1.0, 4.0, 0.5)]
    with planted(*plants) as store:
        replayer = make_replayer(
            store,
            Amounts(buffer_updates=1, buffer_rows=2),
            weighing=Weighing("advantage", alpha=10.0),
            budget=Budget(max_rows=2),
        )
        begun(replayer)
        (picks,) = replayer.buffer()
        assert set(names(picks)) == {"row-0", "row-2"}
        assert set(gone(replayer)) == {"row-1", "row-3"}


def test_rows_that_cannot_be_drawn_go_before_those_that_can() -> None:
    plants = [Plant(A, version=0), Plant(A, version=9), Plant(A, version=9, advantage=1.0)]
    with planted(*plants) as store:
        replayer = make_replayer(
            store, BUFFER, rules=Rules(PRINTS, max_age=5), budget=Budget(max_rows=2)
        )
        begun(replayer, 9, version=9)
        assert gone(replayer) == {"row-0": "beyond the pool's budget"}


def test_rows_at_rest_are_not_taken_for_useless() -> None:
    """One cools down and one's task is retired: both come back, the least useful does not."""
    plants = [
        Plant(A, advantage=5.0, used=(8,)),
        Plant(B, advantage=4.0),
        Plant(C, advantage=0.1),
        Plant(C, advantage=3.0),
    ]
    with planted(*plants) as store:
        replayer = make_replayer(
            store,
            BUFFER,
            rules=Rules(PRINTS, cooldown=5),
            weighing=Weighing("advantage"),
            book=book_of((B, 4, 4), retired=[B]),
            budget=Budget(max_rows=3),
        )
        begun(replayer, 9)
        assert replayer.can_be_drawn.tolist() == [False, False, True, True]
        assert set(gone(replayer)) == {"row-2"}


def test_a_row_that_is_used_up_keeps_no_place_of_its_task() -> None:
    """The best by entropy, but too old or used up: it must not drive out what can be drawn."""
    plants = [
        Plant(A, entropy=0.1, version=5, used=(1, 2)),
        Plant(A, entropy=0.5, version=5),
        Plant(B, entropy=0.1, version=0),
        Plant(B, entropy=0.5, version=5),
        Plant(B, entropy=0.4, version=5),
    ]
    with planted(*plants) as store:
        replayer = make_replayer(
            store,
            MIX,
            rules=Rules(PRINTS, max_uses=2, max_age=9),
            choice="lowest_entropy",
            budget=Budget(rows_per_task=1),
        )
        begun(replayer, 10, version=10)
        assert set(gone(replayer)) == {"row-0", "row-2", "row-3"}


def test_rows_that_leave_their_task_make_room_for_others() -> None:
    """Five rows, at most two of a task and four in all: one goes for both reasons, not two."""
    plants = [Plant(B), Plant(B), Plant(A), Plant(A), Plant(A)]
    with planted(*plants) as store:
        replayer = make_replayer(store, MIX, budget=Budget(rows_per_task=2, max_rows=4))
        begun(replayer)
        assert gone(replayer) == {"row-2": "more than pool.rows_per_task"}
        assert len(gone(replayer, arriving=2)) == 3


def test_budgets_hold_after_the_marks_are_written() -> None:
    rng = np.random.default_rng(8)
    plants = [Plant(TASKS[n % 5], advantage=float(rng.normal())) for n in range(40)]
    with planted(*plants) as store:
        budget = Budget(rows_per_task=6, max_rows=20)
        replayer = make_replayer(store, everything(), budget=budget)
        one_step(replayer, 1)
        rows = fresh(TASKS[5], 1, True, False, True)
        store.commit(Batch(tasks=[TASKS[5]], trajectories=rows))
        _, marks = replayer.finish([Result(TASKS[5].key, 2, 3)], rows)
        store.commit(Batch(marks=marks))
        begun(replayer, 2)
        assert len(replayer.pool) == 20
        held = Counter(replayer.pool.facts["task"].tolist())
        assert max(held.values()) <= 6


# -- rows that cannot be read -------------------------------------------------------------


def damage(store: SqliteStore, *seqs: int) -> None:
    with sqlite3.connect(store.path) as link:
        link.executemany("UPDATE payloads SET frame = x'00' WHERE seq = ?", [(s,) for s in seqs])
    link.close()


@pytest.mark.parametrize("choice", ["newest", "likeliest"])
def test_damaged_rows_are_left_out(choice: Choice) -> None:
    """They join no group, so a group without another success is still to be repaired."""
    plants = [Plant(A), Plant(A), Plant(B), *(Plant(C, advantage=1.0 + n) for n in range(6))]
    with planted(*plants) as store:
        damage(store, 2, 3, 5, 6, 9)
        amounts = Amounts(1.0, repair_rows=1, buffer_updates=1, buffer_rows=9)
        replayer = begun(make_replayer(store, amounts, choice=choice))
        mixed = {each.task: names(each.picks) for each in replayer.mix(3)}
        picks = [pick for each in (A, B, C) for pick in replayer.repair(fresh(each, 1, False))]
        if choice == "newest":
            assert (mixed, names(picks)) == ({A: [], B: [], C: []}, ["row-0", "row-7"])
        else:  # the policy is asked about what can be read
            assert (mixed, names(picks)) == ({A: ["row-0"], B: [], C: ["row-7"]}, [])
        (update,) = replayer.buffer()
        assert set(names(update)) == {"row-3", "row-6"}
        assert set(replayer.lost) == {"row-1", "row-2", "row-4", "row-5", "row-8"}
        assert set(replayer.lost.values()) == {"it is too short for a header"}
        quarantined = store.rows(Query(status=Status.QUARANTINED)).rows
        assert {row.id for row in quarantined} == set(replayer.lost)
        assert not replayer.in_vain
        begun(replayer, 2, 2)
        assert not replayer.lost
        assert len(replayer.pool) == len(plants) - len(quarantined)


def test_rows_that_somebody_took_away_are_left_out() -> None:
    """Another run of the store is resumed, and its rows are pruned, within a step of this one."""
    theirs = [Plant(A, run=OTHER, step=3 + n % 2, advantage=1.0 + n) for n in range(4)]
    mine = [Plant(A, advantage=0.5), Plant(A, advantage=-0.5), Plant(B)]
    with planted(*theirs, *mine) as store:
        budget = Budget(max_rows=1)
        replayer = begun(make_replayer(store, BUFFER, budget=budget))
        store.fence(OTHER, 3, "resumed")
        marks = [Mark(TrajectoryId("row-0"), Action.EVICT, "test")]
        store.commit(Batch(marks=marks))
        store.reclaim(None, None, False)
        picks = [pick for update in replayer.buffer() for pick in update]
        assert set(names(picks)) <= {"row-2", "row-4", "row-5"}
        assert len(picks) + len(replayer.lost) == 4
        assert replayer.lost
        assert set(gone(replayer)) <= {f"row-{n}" for n in range(1, 7)}, "row-0 has no name"
