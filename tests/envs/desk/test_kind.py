"""Kinds are taken apart, and every listed kind can be made."""

from __future__ import annotations

import pytest

from recollect.envs.desk.environment import DOMAINS
from recollect.envs.desk.kind import Kind, Request, parse_kind
from recollect.envs.desk.level import LEVELS
from recollect.envs.desk.scenario import make_scenario


def test_parsing():
    assert parse_kind("seat") == Kind(False, (Request("seat", ""),))
    assert parse_kind("ask.cancel-refused+seat") == Kind(
        True, (Request("cancel", "refused"), Request("seat", ""))
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_kinds_fit_their_level(domain):
    kinds = DOMAINS[domain].kinds
    assert set(kinds) == set(LEVELS)
    for level, names in kinds.items():
        assert len(set(names)) == len(names) >= 4
        for name in names:
            kind = parse_kind(name)
            assert {r.intent for r in kind.requests} <= set(DOMAINS[domain].intents)
            assert len(kind.requests) <= LEVELS[level].fewest or LEVELS[level].named
            if level < 3:
                assert len(kind.requests) == 1
                assert not kind.requests[0].outcome
            if level == 4:
                assert len(kind.requests) >= 2


@pytest.mark.parametrize("domain", DOMAINS)
def test_levels_need_what_they_say(domain):
    """Level 1: one call. Level 2: a lookup whose result holds the id. Levels 3 and 4: more."""
    for level, names in DOMAINS[domain].kinds.items():
        for name in names:
            scenario = make_scenario(DOMAINS[domain], level, name, 0)
            named = [c.arguments["id"] for c in scenario.calls if "id" in c.arguments]
            if level == 1:
                assert len(scenario.calls) == 1
            if level in (2, 4):
                assert scenario.calls[0].name == DOMAINS[domain].list_tool
                assert not any(str(id) in scenario.request for id in named)
            else:
                assert all(str(id) in scenario.request for id in named)


def test_hard_levels_refuse_hand_over_and_serve():
    for domain in DOMAINS.values():
        for level in (3, 4):
            names = " ".join(domain.kinds[level])
            assert "refused" in names
            assert "handover" in names
            handovers = [k for k in domain.kinds[level] if k.endswith("-handover")]
            assert len(handovers) <= len(domain.kinds[level]) / 6
