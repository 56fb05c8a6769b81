"""What `env new` writes works as it is."""

from __future__ import annotations

import pytest

from recollect.envs.checker import check_environment
from recollect.envs.registry import load_environment
from recollect.envs.scaffold import class_name, write_environment
from recollect.envs.transcript import Script, play
from recollect.envs.trusted import load_object
from recollect.errors import BadEnvironment, WouldOverwrite


def test_the_written_environment_keeps_the_contract_and_is_short(tmp_path):
    module, _ = write_environment("my_task", tmp_path)
    environment = load_environment(f"{module}:MyTask")
    report = check_environment(environment, tasks=3)
    assert report.ok, report
    assert len(module.read_text().splitlines()) <= 35
    task = next(environment.tasks("test"))
    hints = play(environment, task, Script(["0", "501", "x"])).exchanges
    assert [e.turn.messages[0].text for e in hints] == ["Higher.", "Lower.", "A number, please."]


def test_the_written_test_passes(tmp_path, monkeypatch):
    _, test = write_environment("my_own_task", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # where pytest would find it
    for name in ("test_contract", "test_right_and_wrong_guesses"):
        load_object(f"{test}:{name}")()


def test_a_mistake_in_the_written_environment_is_found(tmp_path):
    module, _ = write_environment("my_task", tmp_path)
    module.write_text(module.read_text().replace("self.reward = 1.0", "self.reward = 0.5"))
    report = check_environment(load_environment(f"{module}:MyTask"), tasks=3)
    assert [check.name for check in report.checks if check.findings] == ["gold"]


@pytest.mark.parametrize("taken", ["mine.py", "test_mine.py"])
def test_nothing_is_overwritten(tmp_path, taken):
    (tmp_path / taken).write_text("precious")
    with pytest.raises(WouldOverwrite, match=taken):
        write_environment("mine", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "precious"


@pytest.mark.parametrize("name", ["", "My", "9a", "a-b", "../x", "a/b", "class", "json", "a" * 41])
def test_names_must_be_names_of_new_modules(tmp_path, name):
    with pytest.raises(BadEnvironment, match="not a name"):
        write_environment(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_made_and_a_file_is_none(tmp_path):
    module, test = write_environment("mine", tmp_path / "new" / "envs")
    assert module.is_file()
    assert test.parent == tmp_path / "new" / "envs"
    with pytest.raises(BadEnvironment, match="is no folder"):
        write_environment("mine", module)


def test_class_names():
    assert class_name("my_task_2") == "MyTask2"
