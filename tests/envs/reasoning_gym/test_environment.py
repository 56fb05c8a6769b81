from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import islice
from typing import Any

import numpy as np
import pytest

from recollect.envs.base import OffersGold
from recollect.envs.checker import check_environment
from recollect.envs.floors import floors
from recollect.envs.reasoning_gym.environment import ReasoningGym, make_reasoning_gym
from recollect.envs.registry import load_environment
from recollect.envs.transcript import Script, play
from recollect.errors import BadEnvironment, UnknownTask
from recollect.types import Task

pytest.importorskip("reasoning_gym")


def _load(name: str, **options: Any) -> ReasoningGym:
    found = load_environment(f"reasoning_gym:{name}", **options)
    assert isinstance(found, ReasoningGym)
    return found


@pytest.fixture(scope="module")
def sums() -> ReasoningGym:
    return _load("chain_sum", size=60)


def _first(environment: ReasoningGym, split: str = "train") -> Task:
    return next(environment.tasks(split))


# -- the contract --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("chain_sum", {}),
        ("gcd,chain_sum", {"curriculum": [1, 2], "answer": "plain", "partial": False}),
        ("propositional_logic", {}),  # knows how to verify an answer, not which is right
        ("list_functions", {}),  # draws from Python's global generator
        ("prime_factorization", {}),  # its verifier raises on what is no list of numbers
    ],
)
def test_the_contract_is_kept(name: str, options: dict[str, Any]) -> None:
    report = check_environment(_load(name, size=30, **options), tasks=2)
    assert report.ok, [check for check in report.checks if check.findings]


def test_questions_are_the_same_in_every_process(sums: ReasoningGym) -> None:
    mixed = _load("list_functions,chain_sum", size=20)
    mine = [task.key for split in mixed.splits for task in mixed.tasks(split)]
    code = (
        "from recollect.envs.registry import load_environment as load\n"
        "e = load('reasoning_gym:list_functions,chain_sum', size=20)\n"
        "print('\\n'.join(t.key for s in e.splits for t in e.tasks(s)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == mine


def test_nobody_elses_chance_changes() -> None:
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    environment = _load("list_functions", size=10)
    play(environment, _first(environment), Script(["<answer>7</answer>"]))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_a_larger_size_only_adds_tasks(sums: ReasoningGym) -> None:
    larger = _load("chain_sum", size=300)
    for split in sums.splits:
        few = list(sums.tasks(split))
        assert list(islice(larger.tasks(split), len(few))) == few
    assert sum(1 for _ in larger.tasks("train")) > 3 * sum(1 for _ in sums.tasks("train"))


def test_a_dataset_is_the_same_alone_and_in_a_mixture(sums: ReasoningGym) -> None:
    mixed = _load("gcd,chain_sum", size=60)
    mine = [task for task in mixed.tasks("train") if task.domain == "chain_sum"]
    assert mine == list(sums.tasks("train"))
    assert mixed.domains == ("gcd", "chain_sum")
    # They take turns, so that the first few tasks have all of them.
    assert [task.domain for task in islice(mixed.tasks("train"), 4)] == ["gcd", "chain_sum"] * 2


def test_equal_questions_are_listed_once_and_never_in_two_splits() -> None:
    small = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    environment = _load("chain_sum", size=400, settings={"chain_sum": small})
    queries = [task.query for split in environment.splits for task in environment.tasks(split)]
    assert len(queries) == len(set(queries)) < 201


# -- what can be chosen --------------------------------------------------------------------


def test_levels_are_those_of_the_curriculum() -> None:
    environment = _load("chain_sum", curriculum=[1, 4], size=40)
    longest: dict[int, int] = {1: 0, 4: 0}
    for task in environment.tasks("train"):
        terms = 1 + task.query.count(" + ") + task.query.count(" - ")
        longest[task.level] = max(longest[task.level], terms)
    assert longest[1] == 2
    assert longest[4] > 3


def test_settings_are_the_datasets_own() -> None:
    environment = _load("gcd", settings={"gcd": {"min_value": 3, "max_value": 9}}, size=20)
    task = _first(environment)
    numbers = [int(word.strip(".,")) for word in task.query.split() if word.strip(".,").isdecimal()]
    assert numbers
    assert max(numbers) <= 9
    assert task.id.startswith("gcd@")  # another kind of task than those of plain gcd


def test_weights_share_out_the_tasks() -> None:
    environment = _load("gcd,chain_sum", size=50, weights={"gcd": 3})
    counts = {"gcd": 0, "chain_sum": 0}
    for task in environment.tasks("train"):
        counts[task.domain] += 1
    assert counts["gcd"] > 2 * counts["chain_sum"]


def test_another_seed_makes_other_questions(sums: ReasoningGym) -> None:
    other = _load("chain_sum", size=60, seed=1)
    assert not {t.key for t in sums.tasks("train")} & {t.key for t in other.tasks("train")}


# -- answers -------------------------------------------------------------------------------


def test_the_verifier_judges_what_stands_in_tags(sums: ReasoningGym) -> None:
    task = _first(sums)
    answer = sums.answer(task)
    assert answer is not None
    for text, success, answered in (
        (f"I add them up.\n<answer>{answer}</answer>", True, 1),
        (f"<answer>7</answer> or rather <answer> {answer}</answer>", True, 1),
        (f"<answer>{answer}</answer> so <answer>", True, 1),
        ("<answer>" * 5000 + f"{answer}</answer>" + "<answer>" * 5000, True, 1),
        (answer, False, 0),
        ("<answer></answer>", False, 0),
        ("<answer>no</answer>", False, 1),
        ("", False, 0),
    ):
        score = play(sums, task, Script([text])).score
        assert (score.success, score.parts["answered"]) == (success, answered), text


def test_partial_credit_can_be_left_out(sums: ReasoningGym) -> None:
    task = _first(sums)
    text = f"<answer>it is {sums.answer(task)}</answer>"
    some = play(sums, task, Script([text])).score
    assert 0 < some.reward < 1
    assert not some.success
    strict = _load("chain_sum", size=60, partial=False)
    none = play(strict, _first(strict), Script([text])).score
    assert none.reward == 0
    assert none.parts["credit"] == some.reward
    assert strict.version != sums.version  # the same text is worth something else


def test_plain_answers_are_the_whole_text() -> None:
    environment = _load("gcd", answer="plain", size=20)
    task = _first(environment)
    assert play(environment, task, Script([f" {environment.answer(task)}\n"])).score.success
    opening = environment.start(task, 0).opening
    assert "only" in opening.messages[0].text
    assert opening.messages[1].text == task.query


def test_the_last_number_may_be_the_answer() -> None:
    environment = _load("gcd", answer="number", size=20)
    task = _first(environment)
    answer = environment.answer(task)
    for text, success in (
        (f"Of 12 and 18 it is {answer}.", True),
        (f"{answer}, or 1000003?", False),
        ("No idea.", False),
    ):
        assert play(environment, task, Script([text])).score.success is success
    assert environment.gold(task) == (answer,)  # type: ignore[attr-defined]


def test_an_answer_that_the_verifier_cannot_read_is_wrong() -> None:
    environment = _load("prime_factorization", size=20)
    score = play(environment, _first(environment), Script(["<answer>two</answer>"])).score
    assert (score.reward, score.parts["refused"]) == (0.0, 1.0)


def test_gold_is_offered_where_there_is_one(sums: ReasoningGym) -> None:
    assert isinstance(sums, OffersGold)
    assert not isinstance(_load("propositional_logic", size=20), OffersGold)


# -- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("", {}, "needs the name"),
        ("chain_sums", {}, "Did you mean 'chain_sum'"),
        ("composite", {}, "no dataset"),
        ("gcd,gcd", {}, "twice"),
        ("gcd", {"settings": {"gcd": {"max_valu": 3}}}, "Did you mean 'max_value'"),
        ("gcd", {"settings": {"gcd": {"max_value": -3}}}, "refuses its settings"),
        ("gcd", {"settings": {"gcd": {"seed": 3}}}, "the option seed"),
        ("gcd", {"settings": {"lcm": {}}}, "not part of"),
        ("gcd", {"settings": {"gcd": 3}}, "names with values"),
        ("gcd", {"weights": {"gcd": 0}}, "above 0"),
        ("gcd", {"size": 0}, "at least 1"),
        ("gcd", {"answer": "loudly"}, "Known: tags, plain, number"),
        ("gcd", {"curriculum": 900}, "levels 1 to"),
        ("gsm_symbolic", {"curriculum": 1}, "no curriculum"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadEnvironment, match=words):
        _load(name, **options)


@pytest.mark.parametrize("id", ["", "gcd:0", "gcd:0:x", "lcm:0:1", "gcd:1:1", "gcd:0:1:2"])
def test_tasks_it_does_not_have_are_refused(id: str) -> None:
    environment = _load("gcd", size=5)
    with pytest.raises(UnknownTask):
        environment.task(id)


def test_a_task_of_another_version_is_refused() -> None:
    environment = _load("gcd", size=5)
    task = environment.task("gcd:0:1")
    other = Task(task.environment, task.id, "0", task.query)
    with pytest.raises(UnknownTask):
        environment.start(other, 0)
    with pytest.raises(UnknownTask):
        next(environment.tasks("holdout"))


def test_questions_that_differ_between_processes_are_refused() -> None:
    """Unless the hashing of texts is fixed, which is decided when Python starts."""
    code = (
        "from recollect.envs.registry import load_environment as load\n"
        "from recollect.errors import BadEnvironment\n"
        "try:\n"
        "    e = load('reasoning_gym:ransom_note', size=10)\n"
        "    print([t.key for t in e.tasks('train')])\n"
        "except BadEnvironment as error:\n"
        "    print(error.hint)"
    )
    found = []
    for seed in ("random", "0", "0"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found.append(
            subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert "PYTHONHASHSEED=0" in found[0]
    assert found[1] == found[2] != found[0]


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from recollect.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(MissingExtra, match=r"\[reasoning\]"):
        make_reasoning_gym("gcd")


def test_the_commonest_answer_is_a_floor() -> None:
    """Many numbers have no common divisor: who always says 1 is often right."""
    world = make_reasoning_gym("gcd", settings={"gcd": {"max_value": 20}}, answer="number")
    tasks = list(world.tasks("test"))
    ones = sum(world.answer(task) == "1" for task in tasks)
    found = {floor.agent: floor.success for floor in floors(world, "test")}
    assert found["commonest"] == ones / len(tasks) > 0.2
