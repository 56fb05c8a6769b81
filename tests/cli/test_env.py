"""`recollect env`, through the real commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect.cli.env import app
from recollect.envs.desk.environment import DOMAINS, Desk
from recollect.errors import (
    BadEnvironment,
    RecollectError,
    UnknownEnvironment,
    UnknownTask,
    WouldOverwrite,
)


def run(*arguments: str, stdin: str = "", code: int = 0):
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    if isinstance(result.exception, Exception) and not isinstance(result.exception, RecollectError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def failure(*arguments: str) -> RecollectError:
    """Known failures are left to the main command, which knows how to show them."""
    error = CliRunner().invoke(app, list(arguments)).exception
    assert isinstance(error, RecollectError)
    return error


SMALL = ("--set", "size=40", "--floor-tasks", "5")


def test_every_command_has_an_example():
    for command in ("ls", "check", "play", "new"):
        assert f"recollect env {command}" in run(command, "--help").stdout


def test_ls_shows_domains_levels_splits_and_floors():
    lines = run("ls", *SMALL).stdout.splitlines()
    assert lines[0] == "Environments: desk, reasoning_gym, single_turn, tau2"
    assert lines[2].split() == [
        *("domain", "level", "train", "dev", "test", "turns", "words"),
        *("nothing", "handover", "refuse", "random"),
    ]
    assert [line.split()[:2] for line in lines[3:]] == [
        [domain, str(level)] for domain in DOMAINS for level in (1, 2, 3, 4)
    ]
    assert all(line.count("%") == 4 for line in lines[3:])


def test_ls_of_one_lists_its_kinds():
    out = run("ls", "desk:retail", *SMALL).stdout
    assert "airline" not in out
    assert "cancel-refused" in out


def test_ls_json_adds_up():
    document = json.loads(run("ls", "desk:airline", "--json", *SMALL).stdout)
    assert document["environment"] == "desk"
    assert document["limits"] == {"turns": 9, "chars": 600}
    assert [cell["level"] for cell in document["cells"]] == [1, 2, 3, 4]
    for cell in document["cells"]:
        assert sum(cell["counts"].values()) == 40
        assert cell["kinds"] == list(DOMAINS["airline"].kinds[cell["level"]])
    assert {f["agent"] for f in document["floors"]} == {"nothing", "handover", "refuse", "random"}
    assert all(0 <= f["success"] <= 1 and f["tasks"] <= 5 for f in document["floors"])


def test_ls_names_tasks_that_are_not_played(tmp_path):
    run("new", "my_task", "--dir", str(tmp_path))
    path = tmp_path / "my_task.py"
    named = {"a": "no judge", "b": "no judge", "c": "broken"}
    path.write_text(f"{path.read_text()}\n    def left_out(self):\n        return {named}\n")
    shown = run("ls", f"{path}:MyTask", "--floor-tasks", "1").stdout
    assert "Left out, because no judge (2): a b" in shown
    assert "Left out, because broken (1): c" in shown
    found = json.loads(run("ls", f"{path}:MyTask", "--floor-tasks", "1", "--json").stdout)
    assert found["left_out"] == named
    assert json.loads(run("ls", "--floor-tasks", "1", "--json").stdout)["left_out"] == {}


def test_ls_markdown_is_a_table():
    lines = run("ls", "desk:telecom", "--markdown", *SMALL).stdout.splitlines()
    assert len(lines) == 6
    assert {line.count("|") for line in lines} == {12}


def test_check_passes_the_desk():
    out = run("check", "desk", "--tasks", "2", "--set", "size=20").stdout
    assert "desk keeps the contract." in out
    assert "determinism" in out


BROKEN = """
from recollect.envs.base import Opening, user
from recollect.envs.dialogue import Dialogue, DialogueEnvironment

class Episode(Dialogue):
    def begin(self):
        return Opening((user("?"),))
    def reply(self, text):
        int(text)
        return self.end()

class Broken(DialogueEnvironment):
    name = "broken"
    episode = Episode
    def queries(self):
        return [str(n) for n in range(30)]
"""


def test_check_shows_what_is_broken_and_exits_with_1(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    result = run("check", f"{path}:Broken", "--tasks", "2", code=1)
    assert "breaks the contract" in result.stdout
    assert "garbage: task" in result.stdout
    assert "more (--json has them all)" in result.stdout
    document = json.loads(run("check", f"{path}:Broken", "--tasks", "2", "--json", code=1).stdout)
    assert document["ok"] is False
    (garbage,) = [c for c in document["checks"] if c["name"] == "garbage"]
    assert len(garbage["findings"]) > 5
    assert "ValueError" in garbage["findings"][0]["problem"]


def test_check_a_file_of_prompts(tmp_path):
    data = tmp_path / "prompts.jsonl"
    data.write_text("".join(json.dumps({"prompt": f"{n}?", "answer": n}) + "\n" for n in range(30)))
    rewards = tmp_path / "rewards.py"
    rewards.write_text("def exact(text, fields):\n    return text == str(fields['answer'])\n")
    out = run("check", f"single_turn:{data}", "--set", f"reward={rewards}:exact").stdout
    assert "keeps the contract" in out
    played = run(
        *("play", f"single_turn:{data}", "--set", f"reward={rewards}:exact", "--task", "3"),
        stdin="2\n",
    )
    assert "reward 1, success" in played.stdout


def test_play_gold_wins_and_shows_the_conversation():
    task = "airline:3:cancel-refused:0"
    out = run("play", "desk", "--task", task, "--gold").stdout
    assert out.startswith(f"Task {task}, ")
    assert '<tool_call>{"name":"booking"' in out
    assert "reward 1, success" in out


def test_play_from_a_pipe_with_short_calls():
    desk = Desk()
    scenario = desk.scenario("airline:1:bags:0")
    (call,) = scenario.calls
    typed = f"/bags id={call.arguments['id']} count={call.arguments['count']}\nDone.\n"
    result = run("play", "desk", "--task", "airline:1:bags:0", stdin=typed)
    assert "reward 1, success" in result.stdout
    document = json.loads(
        run("play", "desk", "--task", "airline:1:bags:0", "--json", stdin=typed).stdout
    )
    assert (document["success"], document["stop"]) == (True, "done")
    assert [m["role"] for m in document["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant"),
    ]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/\n", "Error: tool call needs a name"),
        ("/fly to=moon\n", "Error: unknown tool"),
        ("/bags id=B4K7 count=[\n", "Error: count must be integer"),
        ("/bags id=B4K7 count=null\n", "Error: count must be integer"),
        ("/wrap\n", "Error: unknown tool"),
        ("Who are you?\n", "\n-- not finished: reward 0"),
        ("", "-- not finished: reward 0, no success"),
        ("\x1b[2J?\n", "-- not finished"),
    ],
)
def test_whatever_is_typed_is_answered(typed, said):
    result = run("play", "desk", "--task", "airline:1:bags:0", stdin=typed)
    assert said in result.stdout


def test_play_chooses_by_level_split_and_seed():
    def task(*options: str) -> dict[str, object]:
        out = run("play", "desk:retail", "--gold", "--json", *options).stdout
        return json.loads(out)["task"]

    assert task("--level", "2", "--split", "test")["level"] == 2
    assert task("--level", "2", "--split", "test")["split"] == "test"
    assert task("--seed", "3") == task("--seed", "3") != task("--seed", "4")


def test_failures_are_ours():
    assert isinstance(failure("ls", "dsk"), UnknownEnvironment)
    assert isinstance(failure("play", "desk", "--task", "nonsense"), UnknownTask)
    assert isinstance(failure("play", "desk", "--level", "9"), UnknownTask)
    assert isinstance(failure("check", "desk", "--set", "levls=1"), BadEnvironment)


@pytest.mark.parametrize("setting", ["size", "=3", "a b=3", "levels=[1"])
def test_settings_are_key_value(setting):
    assert "--set" in run("ls", "desk", "--set", setting, code=2).stderr


def test_new_writes_what_check_and_play_accept(tmp_path):
    out = run("new", "my_task", "--dir", str(tmp_path)).stdout
    name = f"{tmp_path / 'my_task.py'}:MyTask"
    assert f"recollect env check {name}" in out
    assert (tmp_path / "test_my_task.py").is_file()
    assert "keeps the contract" in run("check", name, "--tasks", "2").stdout
    assert "reward 1, success" in run("play", name, "--gold").stdout
    assert "my_task" in run("ls", name, "--floor-tasks", "3").stdout


def test_new_as_json(tmp_path):
    found = json.loads(run("new", "my_task", "--dir", str(tmp_path), "--json").stdout)
    assert found["name"] == f"{tmp_path / 'my_task.py'}:MyTask"
    assert all(Path(file).is_file() for file in found["files"])


def test_new_never_overwrites(tmp_path):
    run("new", "my_task", "--dir", str(tmp_path))
    before = (tmp_path / "my_task.py").read_text()
    (tmp_path / "my_task.py").write_text(before + "# mine")
    assert isinstance(failure("new", "my_task", "--dir", str(tmp_path)), WouldOverwrite)
    assert (tmp_path / "my_task.py").read_text().endswith("# mine")


def test_new_stays_in_its_folder(tmp_path):
    for name in ("../escape", "/tmp/escape", "a/b", "Task", ""):
        assert isinstance(failure("new", name, "--dir", str(tmp_path)), BadEnvironment)
    assert not list(tmp_path.iterdir())
    assert not Path("/tmp/escape.py").exists()


def test_an_environment_without_gold_says_so(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(BROKEN)
    error = failure("play", f"{path}:Broken", "--gold")
    assert "offers no gold" in error.what
