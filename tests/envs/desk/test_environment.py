"""The desk as an environment: its tasks, its splits, its narrowings."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.envs.base import Environment
from recollect.envs.desk.environment import DOMAINS, Desk, make_desk
from recollect.envs.desk.level import LEVELS
from recollect.envs.split import split_of
from recollect.envs.tools import Call, signatures
from recollect.errors import BadEnvironment, EpisodeOver, UnknownTask
from recollect.types import StopReason, Task


@pytest.fixture(scope="module")
def everything() -> dict[str, list[Task]]:
    desk: Environment = Desk()
    return {split: list(desk.tasks(split)) for split in desk.splits}


def test_there_are_thousands_of_different_tasks_in_every_domain(everything):
    counts = Counter(task.domain for tasks in everything.values() for task in tasks)
    assert all(counts[domain] >= 3900 for domain in DOMAINS)
    cells = Counter((t.domain, t.level) for t in everything["train"])
    assert all(cells[domain, level] > 600 for domain in DOMAINS for level in LEVELS)
    assert len({t.key for tasks in everything.values() for t in tasks}) == sum(counts.values())


def test_no_content_is_in_two_splits(everything):
    desk = Desk()
    contents = {s: {desk.content(t) for t in tasks} for s, tasks in everything.items()}
    assert sum(map(len, contents.values())) == len(set().union(*contents.values()))
    assert {s: len(c) for s, c in contents.items()} == {s: len(t) for s, t in everything.items()}


def test_the_split_follows_from_content_not_from_numbering():
    """A problem that turns up again under another number or wording stays in its split."""
    desk = Desk(size=80)
    for split in desk.splits:
        for task in desk.tasks(split):
            assert split_of(desk.content(task)) == split == desk.task(task.id).split


def test_wording_is_no_part_of_the_content(everything):
    """Paraphrases of one problem are one problem: the request is not in what is hashed."""
    scenario = Desk().scenario("airline:1:seat:0")
    assert scenario.request
    hashed = (scenario.kind, repr(scenario.database.tables), scenario.calls)
    assert not any(scenario.request in repr(part) for part in hashed)


def test_queries_are_many_too(everything):
    queries = {t.query for t in everything["train"] if t.level > 1}
    assert len(queries) > 0.9 * sum(t.level > 1 for t in everything["train"])


def test_any_prefix_is_a_fair_mix():
    first = list(islice(Desk().tasks("train"), 240))
    cells = Counter((t.domain, t.level) for t in first)
    assert len(cells) == 12
    assert min(cells.values()) >= 10


def test_tasks_are_made_again_from_their_id(everything):
    desk = Desk("retail", 1)
    for task in everything["test"][:200]:
        assert desk.task(task.id) == task


@pytest.mark.parametrize(
    "id",
    [
        "",
        "airline",
        "airline:1:seat",
        "airline:1:seat:07",
        "airline:1:seat:٣",
        "airline:1:seat:-1",
        "airline:1:seat:1:2",
        "airline:1:seat:" + "9" * 5000,
        "airline:01:seat:7",
        "airline:5:seat:7",
        "airline:1:cancel:7",
        "hotel:1:seat:7",
    ],
)
def test_there_is_one_spelling_of_an_id(id):
    with pytest.raises(UnknownTask, match="has no task"):
        Desk().task(id)


def test_foreign_tasks_and_splits_are_refused():
    with pytest.raises(UnknownTask, match="no split 'valid'"):
        Desk().tasks("valid")
    with pytest.raises(UnknownTask):
        Desk().start(Task("other", "airline:1:seat:0"), 0)
    with pytest.raises(UnknownTask):
        Desk().start(Task("desk", "airline:1:seat:0", version="0"), 0)


def test_narrowing_changes_no_task():
    wide = [t for t in Desk(size=50).tasks("train") if t.domain == "airline" and t.level == 2]
    assert list(Desk("airline", 2, size=50).tasks("train")) == wide
    assert list(make_desk("airline", levels=[2], size=50).tasks("train")) == wide
    longer = list(Desk("airline", 2, size=80).tasks("train"))
    assert longer[: len(wide)] == wide


def test_kinds_can_be_chosen_and_left_out():
    only = Desk(kinds=["cancel", "airline:seat"], size=60)
    assert {(t.domain, only.kind(t)) for t in only.tasks("train")} == {
        ("airline", "seat"),
        ("airline", "cancel"),
        ("retail", "cancel"),
    }
    without = Desk("airline", 3, without_kinds=["cancel", "airline:move"], size=60)
    kinds = {without.kind(t) for t in without.tasks("train")}
    assert (
        kinds
        == set(without.kinds("airline", 3))
        == set(DOMAINS["airline"].kinds[3])
        - {
            "cancel",
            "move",
        }
    )
    assert without.kinds("airline", 1) == ()
    assert Desk(kinds="refund").kinds("retail", 3) == ("refund",)
    assert "refund" not in Desk(without_kinds="refund").kinds("retail", 3)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"domains": ["hotel"]}, "no domain 'hotel'"),
        ({"domains": []}, "list of domains is empty"),
        ({"levels": [5]}, "no level '5'"),
        ({"kinds": ["fly"]}, "no kind 'fly'"),
        ({"without_kinds": ["fly"]}, "no kind 'fly'"),
        ({"domains": "airline", "kinds": ["refund"]}, "no kind of task is left"),
        ({"size": 0}, "size must be"),
        ({"size": True}, "size must be"),
    ],
)
def test_wrong_choices_are_refused(options, problem):
    with pytest.raises((UnknownTask, BadEnvironment), match=problem):
        Desk(**options)


def test_the_opening_is_the_same_for_every_seed():
    desk = Desk(size=20)
    for task in desk.tasks("train"):
        assert desk.start(task, 0).opening == desk.start(task, 1).opening


def test_policies_and_signatures_are_short():
    for domain in DOMAINS.values():
        assert len(domain.toolbox.specs) >= 6
        assert len((domain.policy + "\n" + signatures(domain.toolbox.specs)).split()) <= 72


def test_requests_are_one_or_two_short_sentences(everything):
    for tasks in everything.values():
        for task in tasks:
            assert len(task.query.split()) <= 32, task
            assert len(re.findall(r"[.?]", task.query)) <= 2, task


def test_requests_are_varied_and_alike_whatever_the_outcome():
    """Nothing in the wording tells a request to refuse from one to serve."""
    desk = Desk(size=1)

    def shapes(domain: str, kind: str) -> set[str]:
        found = set()
        for number in range(400):
            text = desk.scenario(f"{domain}:3:{kind}:{number}").request
            text = re.sub(r"\b[A-Z]\d[A-Z]\d\b", "ID", text)
            found.add(re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "DAY", text))
        return found

    for domain, family in (
        ("airline", ("cancel", "cancel-refused", "cancel-handover")),
        ("airline", ("move", "move-refused", "move-full")),
        ("retail", ("cancel", "cancel-refused", "cancel-handover")),
        ("retail", ("refund", "refund-refused")),
        ("telecom", ("plan", "plan-refused")),
        ("telecom", ("close", "close-refused")),
        ("telecom", ("fix", "fix-roaming", "fix-bill", "fix-handover")),
    ):
        first, *others = (shapes(domain, kind) for kind in family)
        assert len(first) >= 8
        assert all(other == first for other in others)


def test_at_the_limit_the_episode_ends():
    desk = Desk("airline", 1, size=5)
    task = next(desk.tasks("train"))
    episode = desk.start(task, 0)
    turns = [episode.respond("Why?") for _ in range(LEVELS[1].turns)]
    assert [t.stop for t in turns] == [None] * (len(turns) - 1) + [StopReason.TURN_LIMIT]
    with pytest.raises(EpisodeOver):
        episode.respond("Why?")


def test_shaped_rewards_pay_failures_at_most_half_and_are_off_by_default():
    keys = set()
    for shaped in (False, True):
        desk = Desk("airline", 3, kinds=["move"], size=20, shaped=shaped)
        task = next(desk.tasks("train"))
        lines = desk.gold(task)
        keys.add(task.key)
        rewards = []
        for length in range(len(lines) + 1):
            episode = desk.start(task, 0)
            for line in lines[:length]:
                episode.respond(line)
            rewards.append(episode.score().reward)
        assert rewards[-1] == 1.0
        if shaped:
            assert rewards == sorted(rewards)
            assert 0 < rewards[1] < rewards[-2] <= 0.5
        else:
            assert set(rewards[:-1]) == {0.0}
    assert len(keys) == 2, "rows of the one are worth something else in the other"


ARGUMENTS = ["id", "user", "to", "seat", "count", "flight", "on"]
ARGUMENTS += ["gb", "city", "plan", "product", "item"]
calls = st.builds(
    Call,
    st.sampled_from([s.name for d in DOMAINS.values() for s in d.toolbox.specs]),
    st.dictionaries(
        st.sampled_from(ARGUMENTS),
        st.one_of(
            st.sampled_from(["aisle", "Rome", "mini", "Bern", "u31", "B4K7"]),
            st.integers(),
            st.booleans(),
            st.none(),
            st.text(max_size=5),
        ),
        max_size=3,
    ),
)
texts = st.one_of(st.text(max_size=60), calls.map(lambda c: c.text()), st.just("What user id?"))
DESK = Desk(size=12)
TASKS = [t for s in DESK.splits for t in DESK.tasks(s)]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TASKS), st.lists(texts, max_size=10), st.integers(0, 2**40))
def test_whatever_is_said_the_rules_hold(task, lines, seed):
    """No text raises; messages stay short; the scenario is untouched; success needs gold."""
    before = DESK.scenario(task.id).database.copy()
    episode = DESK.start(task, seed)
    for line in lines:
        turn = episode.respond(line)
        assert all(len(m.text) <= DESK.limits.chars for m in turn.messages)
        if turn.done:
            break
    score = episode.score()
    assert score == episode.score()
    assert score.success == (score.parts["database"] == 1.0 and score.parts["facts"] == 1.0)
    assert DESK.scenario(task.id).database == before
