"""Limits that move: capacity by progress, uses by KL with hysteresis, all of it by a controller."""

from __future__ import annotations

import json

import pytest

from recollect.replay.adaptation import Adaptation, Capacity, Limits, UseRule
from recollect.replay.controller import Controller, Measured, Targets
from recollect.replay.eligibility import Rules
from recollect.replay.policy import Amounts, Budget
from recollect.replay.replayer import Replayer
from recollect.replay.weights import Weighing
from recollect.store.sqlite import SqliteStore

from .pools import PRINTS, TASKS, Plant, fresh, make_replayer, planted

CONFIGURED = Limits(max_age=100, max_uses=4, max_rows=1000)
RULE = UseRule(low=0.008, high=0.012, calm=6, moving=2)


def test_nothing_is_moved_without_rules() -> None:
    still = Adaptation(CONFIGURED)
    assert still.saw(Measured(0.1, 9.0)) == []
    assert still.limits(7, 10) == CONFIGURED


def test_capacity_by_progress() -> None:
    found = Adaptation(CONFIGURED, capacity=Capacity(500, 0.5))
    assert [found.limits(step, 10).max_rows for step in (1, 5, 6, 10)] == [500, 500, 1000, 1000]


def test_uses_by_kl_with_hysteresis() -> None:
    found = Adaptation(CONFIGURED, uses=RULE)
    heard = []
    for kl in (0.010, 0.005, 0.010, 0.013, 0.010, 0.007):
        said = found.saw(Measured(1.0, kl))
        heard.append((found.limits(1, 10).max_uses, len(said)))
    # In between the limit stays what it was: at first as configured, then on either side.
    assert heard == [(4, 0), (6, 1), (6, 0), (2, 1), (2, 0), (6, 1)]


def test_it_says_which_way_and_why() -> None:
    found = Adaptation(CONFIGURED, uses=RULE)
    assert found.saw(Measured(1.0, 0.02)) == ["use limit 4 -> 2: KL 0.0200 is above 0.012"]
    assert found.saw(None) == []


def test_the_level_scales_all_limits() -> None:
    controller = Controller(Targets(0.5, 0.1))
    found = Adaptation(CONFIGURED, uses=RULE, controller=controller)
    found.saw(Measured(0.2, 0.02))  # the rule says 2 uses, the controller 70 %
    assert found.limits(1, 10) == Limits(70, 2, 1000, pytest.approx(0.7))
    for _ in range(6):
        found.saw(Measured(0.2, 0.005))
    assert found.limits(1, 10).level == 0.0


def test_a_limit_never_falls_to_nothing_by_rounding() -> None:
    controller = Controller(Targets(0.5, 0.1))
    found = Adaptation(Limits(2, 1, None), controller=controller)
    for _ in range(5):
        found.saw(Measured(0.2, 0.02))
    limits = found.limits(1, 10)
    assert 0 < limits.level < 0.2
    assert (limits.max_age, limits.max_uses) == (1, 1)


def test_state_through_json() -> None:
    def make() -> Adaptation:
        rule = UseRule(0.008, 0.012, 6, 2, memory=0.5)
        return Adaptation(CONFIGURED, None, rule, Controller(Targets(0.5, 0.1, 0.5)))

    one = make()
    for kl in (0.3, 0.001, 0.004, 0.02):
        one.saw(Measured(0.6 - kl, kl))
        two = make()
        two.restore(json.loads(json.dumps(one.state())))
        assert two.limits(3, 10) == one.limits(3, 10)
        assert two.state() == one.state()


def test_a_use_limit_that_no_rule_moves_is_the_configured_one() -> None:
    """Somebody changed pool.max_uses in the run's file; a checkpoint still knows the old one."""
    before = Adaptation(CONFIGURED, controller=Controller(Targets(0.5, 0.1)))
    after = Adaptation(Limits(100, 9, 1000), controller=Controller(Targets(0.5, 0.1)))
    after.restore(json.loads(json.dumps(before.state())))
    assert after.limits(3, 10).max_uses == 9


# -- in a replayer --------------------------------------------------------------------------


def adapted(store: SqliteStore, adaptation: Adaptation) -> Replayer:
    amounts = Amounts(buffer_updates=2, buffer_rows=2)
    replayer = make_replayer(store, amounts, budget=Budget(max_rows=20))
    replayer.adaptation = adaptation
    return replayer


def test_the_level_scales_the_draw_and_zero_stops_it() -> None:
    plants = [Plant(TASKS[n % 6], advantage=1.0) for n in range(8)]
    with planted(*plants) as store:
        controller = Controller(Targets(0.5, 0.1))
        replayer = adapted(store, Adaptation(CONFIGURED, controller=controller))
        drawn = []
        for step in range(1, 10):
            replayer.begin(step, 10, 0)
            drawn.append(sum(len(update) for update in replayer.buffer()))
            controller.saw(Measured(0.1, 0.5))
        assert drawn[:4] == [4, 2, 1, 1]
        assert drawn[7] == 0


def test_use_limit_and_capacity_reach_draw_and_eviction() -> None:
    uses = [(1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6), (1, 2), (1, 2), (), (), (), ()]
    plants = [Plant(TASKS[n % 6], advantage=1.0, used=used) for n, used in enumerate(uses)]
    with planted(*plants) as store:
        found = Adaptation(Limits(None, 4, 20), Capacity(6, 0.5), RULE)
        found.saw(Measured(1.0, 0.02))
        replayer = adapted(store, found)
        replayer.begin(3, 10, 0)
        assert replayer.eligible == 4  # those used less than twice
        _, marks = replayer.finish([], [])
        # Eight rows, six places. Those go that no limit will let in again; two uses are too many
        # only while the policy moves.
        assert {mark.trajectory for mark in marks} == {"row-0", "row-1"}
        replayer.begin(6, 10, 0)
        _, marks = replayer.finish([], fresh(TASKS[0], 6, True))
        assert marks == []


def test_what_only_the_moment_keeps_out_is_not_taken_for_useless() -> None:
    plants = [Plant(TASKS[n], advantage=size, version=3 * (n > 1))
              for n, size in enumerate((5.0, 4.0, 0.1, 0.1))]  # fmt: skip
    with planted(*plants) as store:
        controller = Controller(Targets(0.5, 0.1))
        for _ in range(20):
            controller.saw(Measured(0.1, 0.5))
        rules, weighing = Rules(PRINTS, max_age=8, max_uses=4), Weighing("advantage")
        replayer = make_replayer(
            store, Amounts(), rules=rules, weighing=weighing, budget=Budget(max_rows=2)
        )
        replayer.adaptation = Adaptation(Limits(8, 4, 2), controller=controller)
        replayer.begin(6, 10, 4)
        assert replayer.limits.max_age == 2  # for now: the better rows are four updates old
        _, marks = replayer.finish([], [])
        assert {mark.trajectory for mark in marks} == {"row-2", "row-3"}


@pytest.mark.parametrize(
    ("amounts", "version", "fresh_success", "vain"),
    [
        (Amounts(buffer_updates=1, buffer_rows=2), 0, True, False),
        (Amounts(buffer_updates=1, buffer_rows=2), 9, True, True),  # all are too old
        (Amounts(mix_ratio=0.5), 9, True, True),
        (Amounts(mix_ratio=0.1), 9, True, False),  # a tenth of two tasks: not due yet
        (Amounts(repair_rows=1), 9, False, True),
        (Amounts(repair_rows=1), 9, True, False),  # nothing to repair
    ],
)
def test_a_search_in_vain_is_one_for_rows_that_were_wanted(
    amounts: Amounts, version: int, fresh_success: bool, vain: bool
) -> None:
    with planted(*[Plant(task, advantage=1.0) for task in TASKS]) as store:
        replayer = make_replayer(store, amounts, rules=Rules(PRINTS, max_age=3))
        replayer.begin(1, 10, version)
        replayer.mix(2)
        replayer.repair(fresh(TASKS[0], 1, fresh_success))
        replayer.buffer()
        assert replayer.in_vain == vain
        replayer.begin(2, 10, version)
        assert not replayer.in_vain
