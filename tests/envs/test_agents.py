"""The random agent is seeded and calls tools as they want to be called."""

from __future__ import annotations

from recollect.envs.agents import RandomTool
from recollect.envs.desk.environment import DOMAINS, Desk
from recollect.envs.tools import Call, argument_problem, parse_call
from recollect.envs.transcript import play

from .guessing import Guessing


def test_equal_seeds_play_equal_episodes():
    desk = Desk(size=20)
    tasks = list(desk.tasks("train"))
    first = [play(desk, task, RandomTool(5)) for task in tasks]
    assert first == [play(desk, task, RandomTool(5)) for task in tasks]
    assert first != [play(desk, task, RandomTool(6)) for task in tasks]


def test_its_calls_have_the_right_types():
    desk = Desk(size=60)
    specs = {d: {s.name: s for s in DOMAINS[d].toolbox.specs} for d in DOMAINS}
    used = set()
    for place, task in enumerate(desk.tasks("train")):
        for exchange in play(desk, task, RandomTool(place)).exchanges:
            call = parse_call(exchange.text)
            if isinstance(call, Call):
                used.add((task.domain, call.name))
                assert argument_problem(specs[task.domain][call.name], call.arguments) is None
    assert used == {(domain, name) for domain in DOMAINS for name in specs[domain]}


def test_without_tools_it_talks():
    environment = Guessing()
    played = play(environment, next(environment.tasks("train")), RandomTool(0))
    assert played.exchanges[0].text == "Done. What is it."
