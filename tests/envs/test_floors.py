"""Floors are computed for every domain and level, and are low where they must be."""

from __future__ import annotations

import pytest

from recollect.envs.desk.environment import Desk
from recollect.envs.floors import floors

from .guessing import Guessing


@pytest.fixture(scope="module")
def desk_floors():
    return {(f.domain, f.level, f.agent): f for f in floors(Desk(size=300), most=60)}


def test_every_agent_is_played_everywhere(desk_floors):
    desk = Desk()
    agents = ("nothing", "handover", "refuse", "random")
    wanted = {(d, level, a) for d in desk.domains for level in desk.levels for a in agents}
    assert set(desk_floors) == wanted
    assert all(f.tasks >= 30 for f in desk_floors.values())


def test_doing_nothing_never_wins(desk_floors):
    assert all(f.success == 0 for (_, _, agent), f in desk_floors.items() if agent == "nothing")


def test_no_constant_answer_is_worth_much(desk_floors):
    for (_, level, agent), floor in desk_floors.items():
        if agent in ("handover", "refuse"):
            assert floor.success <= (0.25 if level == 3 else 0.15), floor
    # They do win sometimes, or the agents would be broken rather than hopeless.
    assert any(f.success for (_, _, agent), f in desk_floors.items() if agent == "handover")
    assert any(f.success for (_, _, agent), f in desk_floors.items() if agent == "refuse")


def test_random_tools_win_rarely_and_less_on_hard_levels(desk_floors):
    random = [f for (_, _, agent), f in desk_floors.items() if agent == "random"]
    assert all(f.success <= 0.2 for f in random)
    by_level = {lv: sum(f.success for f in random if f.level == lv) for lv in (1, 4)}
    assert by_level[1] > by_level[4]


def test_floors_are_reproducible():
    assert floors(Desk("retail", 3, size=50)) == floors(Desk("retail", 3, size=50))


def test_an_environment_without_constants_gets_the_general_agents():
    found = floors(Guessing(), "train", most=3)
    assert [(f.agent, f.success) for f in found] == [("nothing", 0.0), ("random", 0.0)]
