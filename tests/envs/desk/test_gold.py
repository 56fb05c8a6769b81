"""Every generated task can be solved: its gold scores 1.0, on thousands of tasks of each cell."""

from __future__ import annotations

import pytest

from recollect.envs.desk.environment import DOMAINS
from recollect.envs.desk.episode import DeskEpisode
from recollect.envs.desk.level import LEVELS
from recollect.envs.desk.scenario import make_scenario
from recollect.types import StopReason

TASKS = 2000


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_gold_scores_one_and_doing_nothing_does_not(domain, level):
    kinds = DOMAINS[domain].kinds[level]
    longest = 0
    for place in range(TASKS):
        number, which = divmod(place, len(kinds))
        scenario = make_scenario(DOMAINS[domain], level, kinds[which], number)
        lines = scenario.transcript()
        longest = max(longest, len(lines))
        episode = DeskEpisode("x", scenario, place, shaped=False)
        if place < 300:
            assert not episode.score().success, f"{kinds[which]} {number}: nothing was needed"
        for line in lines[:-1]:
            assert not episode.respond(line).done
        assert episode.respond(lines[-1]).stop is StopReason.DONE
        score = episode.score()
        assert score.success, f"{kinds[which]} {number}"
        assert score.reward == 1.0
        assert score.parts == {"database": 1.0, "facts": 1.0, "tools": 1.0, "errors": 0.0}
    assert longest + 3 == LEVELS[level].turns, "the limit no longer fits the longest gold"


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_required_call_is_required(domain):
    """Leaving out a write, a hand-over or the closing facts loses the task."""
    for level, kinds in DOMAINS[domain].kinds.items():
        for kind in kinds:
            for number in range(10):
                scenario = make_scenario(DOMAINS[domain], level, kind, number)
                for left_out, call in enumerate(scenario.calls):
                    if DOMAINS[domain].toolbox.writes(call.name):
                        lines = list(scenario.transcript())
                        del lines[left_out + scenario.asked]
                        assert not _play(scenario, lines), (kind, number, call)
                if scenario.facts:
                    lines = [*scenario.transcript()[:-1], "Done."]
                    assert not _play(scenario, lines), (kind, number)


def _play(scenario, lines) -> bool:
    episode = DeskEpisode("x", scenario, 0, shaped=False)
    for line in lines:
        episode.respond(line)
    return episode.score().success
