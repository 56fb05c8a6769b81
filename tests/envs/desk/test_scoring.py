"""The parts of a score, and that nothing but gold state and told facts is success."""

from __future__ import annotations

from recollect.envs.desk.environment import Desk
from recollect.envs.desk.scoring import Attempt, gold_state, judge
from recollect.envs.tools import Call

SCENARIO = Desk().scenario("airline:3:move:0")


def attempt(database=None, stated=None, calls=(), errors=0) -> Attempt:
    gold = gold_state(SCENARIO)
    return Attempt(database or gold, SCENARIO.closing if stated is None else stated, calls, errors)


def test_state_and_facts_are_both_needed():
    assert judge(SCENARIO, attempt()).success
    assert not judge(SCENARIO, attempt(stated="Done.")).success
    assert not judge(SCENARIO, attempt(database=SCENARIO.database.copy())).success


def test_a_hand_over_that_nobody_needed_spoils_the_state():
    state = gold_state(SCENARIO)
    state.handed_over = True
    assert not judge(SCENARIO, attempt(database=state)).success


def test_any_other_change_spoils_the_state():
    state = gold_state(SCENARIO)
    next(iter(state.tables["bookings"].values()))["bags"] = 99
    assert judge(SCENARIO, attempt(database=state)).parts["database"] == 0.0


def test_the_tools_part_counts_gold_calls_once_each_in_any_order_of_arguments():
    lookup, flights, move = SCENARIO.calls
    swapped = Call(move.name, dict(reversed(move.arguments.items())))
    for made, share in (
        ([], 0.0),
        ([lookup, lookup], 1 / 3),
        ([lookup, flights], 2 / 3),
        ([swapped, flights, lookup, lookup], 1.0),
        ([Call("move", {**move.arguments, "flight": "F00"})], 0.0),
    ):
        assert judge(SCENARIO, attempt(calls=made)).parts["tools"] == share


def test_errors_are_counted_and_cost_nothing():
    score = judge(SCENARIO, attempt(errors=3))
    assert score.parts["errors"] == 3.0
    assert score.reward == 1.0


def test_shaping_stays_below_success():
    nothing = judge(SCENARIO, attempt(SCENARIO.database, ""), shaped=True)
    some = judge(SCENARIO, attempt(stated=""), shaped=True)
    assert nothing.reward < some.reward <= 0.5
    assert judge(SCENARIO, attempt(), shaped=True).reward == 1.0
