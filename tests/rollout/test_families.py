from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.rollout.families import Family, families_of

RULES = tuple(range(40))
OTHERS = tuple(range(100, 150))

prompts = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), unique=True, max_size=12
)


def test_tasks_of_two_domains_are_two_families() -> None:
    tasks = [(*rules, task, 9) for task in (1, 2, 3) for rules in (RULES, OTHERS)]
    found = families_of(tasks)
    assert {(len(family.prompts), family.common) for family in found} == {(3, 40), (3, 50)}


def test_a_prompt_alone_has_no_family() -> None:
    assert families_of([]) == []
    assert families_of([RULES]) == []
    assert families_of([(*RULES, 1), (*OTHERS, 1)]) == []


def test_a_prompt_that_is_the_beginning_of_another_keeps_a_token() -> None:
    (family,) = families_of([RULES, (*RULES, 1)])
    assert family == Family((RULES, (*RULES, 1)), len(RULES) - 1)


def test_much_in_common_is_shared_though_more_is_not() -> None:
    tasks = [(*range(1000), *[task] * 1200) for task in (-1, -2)]
    (family,) = families_of(tasks)
    assert family.common == 1000


@pytest.mark.parametrize("last", [0, 10**6])
def test_a_short_prompt_does_not_spoil_a_domain(last: int) -> None:
    """Wherever it comes in order: the others keep what they have in common."""
    opening = tuple(range(1000, 1040))
    tasks = [(*opening, *range(5, 1005), task) for task in range(8)]
    found = families_of([*tasks, (*opening, *[last] * 20)])
    assert [(len(family.prompts), family.common) for family in found] == [(8, 1040)]


def test_a_common_first_sentence_does_not_make_one_family_of_two_domains() -> None:
    opening = tuple(range(1000, 1035))
    domains = [(*opening, *RULES, 1), (*opening, *RULES, 2), (*opening, *OTHERS), (*opening, 7)]
    found = families_of(domains)
    assert [(len(family.prompts), family.common) for family in found] == [(2, 75), (2, 35)]


@given(prompts=prompts, least=st.integers(1, 4))
def test_families_are_what_they_say(prompts: list[tuple[int, ...]], least: int) -> None:
    found = families_of(prompts, least)
    members = [prompt for family in found for prompt in family.prompts]
    assert len(members) == len(set(members))
    assert set(members) <= set(prompts)
    for family in found:
        assert len(family.prompts) > 1
        assert least <= family.common < min(map(len, family.prompts))
        for one, other in pairwise(family.prompts):
            assert one[: family.common] == other[: family.common]
