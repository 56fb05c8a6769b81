"""Prompts from a file, judged by a function the user named."""

from __future__ import annotations

import json

import pytest

from recollect.envs.checker import check_environment
from recollect.envs.registry import load_environment
from recollect.envs.single_turn import MAX_LINE_CHARS, SingleTurn
from recollect.envs.split import split_of
from recollect.envs.transcript import Script, play
from recollect.errors import (
    BadDataset,
    BadEnvironment,
    EpisodeOver,
    RewardFailed,
    UnknownTask,
)
from recollect.types import StopReason, Task


def exact(text, fields):
    return float(text.strip() == fields["answer"])


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def sums(tmp_path):
    rows = [{"prompt": f"{n}+{n}?", "answer": str(2 * n), "id": f"s{n}"} for n in range(100)]
    return write(tmp_path / "sums.jsonl", *rows)


def every_task(environment):
    return [task for split in environment.splits for task in environment.tasks(split)]


def test_it_keeps_the_contract(sums):
    report = check_environment(SingleTurn(sums, exact), tasks=5)
    assert report.ok, report


def test_right_and_wrong_answers(sums):
    environment = SingleTurn(sums, exact, system_text="Add.")
    task = next(t for t in every_task(environment) if t.id.startswith("s7@"))
    right = play(environment, task, Script(["14"]))
    assert [m.text for m in right.opening.messages] == ["Add.", "7+7?"]
    assert (right.score.reward, right.score.success) == (1.0, True)
    assert right.stop is StopReason.DONE
    assert not play(environment, task, Script(["15"])).score.success
    assert not play(environment, task, Script([])).score.success


def test_splits_by_hash_of_the_prompt(sums):
    environment = SingleTurn(sums, exact)
    tasks = every_task(environment)
    assert len(tasks) == 100
    assert all(task.split == split_of(task.query) for task in tasks)


def test_splits_by_field(tmp_path):
    rows = [{"prompt": str(n), "part": "odd" if n % 2 else "even"} for n in range(10)]
    path = write(tmp_path / "p.jsonl", *rows)
    environment = SingleTurn(path, lambda text, fields: 0.0, split_field="part")
    assert environment.splits == ("even", "odd")
    assert [t.query for t in environment.tasks("odd")] == ["1", "3", "5", "7", "9"]
    with pytest.raises(UnknownTask, match="no split 'train'"):
        environment.tasks("train")


def test_the_checker_finds_a_prompt_in_two_field_splits(tmp_path):
    rows = [{"prompt": "same", "part": "train"}, {"prompt": "same", "part": "test"}]
    path = write(tmp_path / "p.jsonl", *rows)
    report = check_environment(SingleTurn(path, lambda text, fields: 0.0, split_field="part"))
    assert [c.name for c in report.checks if c.findings] == ["splits"]


def test_the_threshold_decides_success(sums):
    for threshold, success in ((0.4, True), (0.41, False)):
        environment = SingleTurn(sums, lambda text, fields: 0.4, threshold=threshold)
        task = next(environment.tasks("train"))
        assert play(environment, task, Script(["x"])).score.success == success


def test_messages_as_prompt(tmp_path):
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    path = write(tmp_path / "p.jsonl", {"prompt": prompt})
    environment = SingleTurn(path, lambda text, fields: 1)
    (task,) = every_task(environment)
    opening = environment.start(task, 0).opening
    assert [(m.kind.value, m.text) for m in opening.messages] == [
        ("system", "Be brief."),
        ("user", "Hi"),
    ]


def test_an_edited_answer_is_a_new_task_and_the_others_stay(tmp_path):
    rows = [{"prompt": "a", "answer": "1"}, {"prompt": "b", "answer": "2"}]
    before = every_task(SingleTurn(write(tmp_path / "p.jsonl", *rows), exact))
    rows[1]["answer"] = "3"
    after = every_task(SingleTurn(write(tmp_path / "p.jsonl", *rows, {"prompt": "c"}), exact))
    keys = {t.query: t.key for t in before}, {t.query: t.key for t in after}
    assert keys[0]["a"] == keys[1]["a"]
    assert keys[0]["b"] != keys[1]["b"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not valid JSON"),
        ('{"prompt": NaN}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "has no prompt"),
        ('{"prompt": ""}', "not a text or messages"),
        ('{"prompt": 5}', "not a text or messages"),
        ('{"prompt": []}', "not a text or messages"),
        ('{"prompt": [{"role": "assistant", "content": "x"}]}', "role"),
        ('{"prompt": [{"role": "user"}]}', "role"),
        ('{"prompt": [{"role": ["user"], "content": "x"}]}', "role"),
        ('{"prompt": ["user"]}', "role"),
        ('{"prompt": "x", "id": "one"}', "also on line 1"),
        ('{"prompt": "x", "id": ""}', "not an id"),
        ('{"prompt": "x", "id": [1]}', "not an id"),
        ('{"prompt": "\\ud800"}', "not UTF-8"),
        ('{"prompt": "' + "x" * MAX_LINE_CHARS + '"}', "longer than"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path, line, problem):
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"prompt": "fine", "id": "one"}}\n\n{line}\n')
    with pytest.raises(BadDataset, match=problem) as caught:
        SingleTurn(path, exact)
    assert caught.value.line == 3


def test_bytes_that_are_not_text_are_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"prompt": "fine"}\n{"prompt": "\xff\xfe"}\n')
    with pytest.raises(BadDataset, match="line 2: holds bytes"):
        SingleTurn(path, exact)


def test_a_byte_order_mark_is_forgiven(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "fine"}\r\n')
    assert len(every_task(SingleTurn(path, exact))) == 1


def test_a_missing_split_field_is_refused_with_its_line(tmp_path):
    path = write(tmp_path / "p.jsonl", {"prompt": "a", "part": "x"}, {"prompt": "b"})
    with pytest.raises(BadDataset, match="line 2: no split"):
        SingleTurn(path, exact, split_field="part")


def test_no_file_and_no_prompts(tmp_path):
    with pytest.raises(BadEnvironment, match="there is no file"):
        SingleTurn(tmp_path / "none.jsonl", exact)
    (tmp_path / "empty.jsonl").write_text("\n \n")
    with pytest.raises(BadEnvironment, match="holds no prompts"):
        SingleTurn(tmp_path / "empty.jsonl", exact)


def raising(text, fields):
    raise KeyError("solution")


@pytest.mark.parametrize(
    ("reward", "problem"),
    [
        (raising, "KeyError"),
        (lambda text, fields: float("nan"), "returned nan"),
        (lambda text, fields: float("inf"), "returned inf"),
        (lambda text, fields: None, "returned None"),
        (lambda text, fields: "1", "returned '1'"),
        (lambda text, fields: 10**5000, "beyond every float"),
    ],
)
def test_a_failing_reward_names_the_task_and_scores_nothing(sums, reward, problem):
    environment = SingleTurn(sums, reward)
    task = next(environment.tasks("train"))
    with pytest.raises(RewardFailed, match=problem) as caught:
        play(environment, task, Script(["1"]))
    assert task.id in caught.value.what


def test_true_and_whole_numbers_are_rewards(sums):
    for value in (True, 1):
        environment = SingleTurn(sums, lambda text, fields, v=value: v)
        task = next(environment.tasks("train"))
        score = play(environment, task, Script(["x"])).score
        assert score.reward == 1.0
        assert type(score.reward) is float


def test_one_answer_and_no_more(sums):
    environment = SingleTurn(sums, exact)
    episode = environment.start(next(environment.tasks("train")), 0)
    episode.respond("1")
    with pytest.raises(EpisodeOver):
        episode.respond("2")


def test_whoever_asks_before_the_answer_is_not_told_the_same_after_it(sums):
    environment = SingleTurn(sums, exact)
    task = next(t for t in every_task(environment) if t.id.startswith("s7@"))
    episode = environment.start(task, 0)
    assert not episode.score().success
    episode.respond("14")
    assert episode.score().success


def test_by_name_with_a_reward_from_a_file(sums, tmp_path):
    rewards = tmp_path / "rewards.py"
    rewards.write_text("def length(text, fields):\n    return len(text) / 10\n")
    environment = load_environment(
        f"single_turn:{sums}", reward=f"{rewards}:length", threshold=0.3, version="2"
    )
    assert environment.name == "single_turn:sums"
    assert environment.version.startswith("2-")
    task = next(environment.tasks("train"))
    score = play(environment, task, Script(["abc"])).score
    assert (score.reward, score.success) == (0.3, True)


def test_what_changes_the_score_changes_the_version(sums):
    """Rows of the one would be read as rows of the other, in a pool that both see."""

    def reward(text, fields):
        return 1.0

    usual = SingleTurn(sums, reward)
    assert usual.version == "1", "keys of earlier releases stay"
    others = [SingleTurn(sums, reward, threshold=0.9), SingleTurn(sums, exact)]
    keys = {next(each.tasks("train")).key for each in (usual, *others)}
    assert len(keys) == 3


@pytest.mark.parametrize("reward", ["math:pi", "math:sqrt", "no_such_module:f", "nonsense"])
def test_a_reward_that_cannot_judge_is_refused(sums, reward):
    with pytest.raises(BadEnvironment):
        SingleTurn(sums, reward)


def test_the_data_cannot_name_the_reward(tmp_path):
    """A line may say what it likes: its fields are values, never code."""
    path = write(tmp_path / "p.jsonl", {"prompt": "x", "answer": "1", "reward": "os:abort"})
    environment = SingleTurn(path, exact)
    (task,) = every_task(environment)
    assert play(environment, task, Script(["1"])).score.success


def test_tasks_of_other_files_are_refused(sums):
    environment = SingleTurn(sums, exact)
    with pytest.raises(UnknownTask):
        environment.start(Task(environment.name, "nobody"), 0)
