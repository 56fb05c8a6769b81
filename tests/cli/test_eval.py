"""`recollect eval`, through the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from continual.small import HALVES
from train.small import LETTERS, WORLDS, make_config, run_to_end

from .conftest import ask_json, assert_refused, invoke


@pytest.fixture(scope="module")
def run(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run_to_end(folder, make_config(model, "run.steps=2", "environment.levels=[2]"))
    return folder


def test_the_built_in_model(tmp_path: Path) -> None:
    cells = ask_json("eval", "tiny", "--env", "desk:airline", "--level", 1, "--tasks", 4)
    assert [(cell["domain"], cell["level"], cell["n"]) for cell in cells] == [
        ("airline", 1, 4),
        ("all", None, 4),
    ]
    assert all(0 <= cell["success"] <= 1 for cell in cells)
    assert cells[0]["floor"] is not None


def test_a_model_folder_as_a_table(model: Path) -> None:
    result = invoke("eval", model, "--env", LETTERS, "--tasks", 6, "--split", "train")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0][:3] == ["domain", "level", "n"]
    assert [line[:3] for line in lines[1:4]] == [
        ["letters", "1", "3"],
        ["letters", "2", "3"],
        ["all", "all", "6"],
    ]
    assert "split train, temperature 0" in result.stdout


@pytest.mark.parametrize("command", [["eval"], ["eval", "--env", "desk"], ["serve", "policy"]])
def test_a_mistyped_run_is_not_asked_of_the_hub(command: list[str], tmp_path: Path) -> None:
    missing = tmp_path / "nosuch"
    refused = invoke(*command, missing)
    assert_refused(refused, f"{missing}: there is neither a run nor a model", "recollect runs ls")


def test_there_is_no_level_below_zero() -> None:
    refused = invoke("eval", "tiny", "--level", -1)
    assert refused.exit_code == 2
    assert "--level" in refused.stderr


def test_several_rows(model: Path) -> None:
    command = ("eval", model, "--env", LETTERS, "--tasks", 2, "--split", "dev", "--rows", 3)
    cells = ask_json(*command, "--temperature", 1.0)
    assert cells[-1]["n"] == 6
    assert_refused(invoke(*command), "eval.temperature")


def test_a_run_is_scored_with_its_own_settings(run: Path) -> None:
    """The same score that the run itself wrote down at its end."""
    from recollect.telemetry.reading import read_metrics

    cells = ask_json("eval", run, "--split", "dev", "--tasks", 4)
    last = read_metrics(run).evaluations[-1]
    assert [(c["domain"], c["level"], c["n"], c["reward"]) for c in cells[:-1]] == [
        (s.domain, s.level, s.n, s.reward) for s in last.scores
    ]
    assert {cell["level"] for cell in cells[:-1]} == {2}


def test_a_run_in_another_environment(run: Path) -> None:
    """The run was trained on level 2, which another environment need not have."""
    cells = ask_json("eval", run, "--env", f"{WORLDS}:Same", "--split", "dev", "--tasks", 4)
    assert {cell["level"] for cell in cells[:-1]} == {1, 2}


def test_a_run_of_one_domain_in_all_of_them(model: Path, tmp_path: Path) -> None:
    """As a stage of a continual run is: --env means the whole environment."""
    one = (f"environment.name={HALVES}", "environment.domains=[early]")
    run_to_end(tmp_path / "run", make_config(model, "run.steps=1", *one))
    for given, domains in (((), {"early"}), (("--env", HALVES), {"early", "late"})):
        cells = ask_json("eval", tmp_path / "run", *given, "--split", "dev", "--tasks", 4)
        assert {cell["domain"] for cell in cells[:-1]} == domains


def test_an_environment_with_options(model: Path, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(f'{{"prompt": "{n} + 1 =", "answer": "{n + 1}"}}\n' for n in range(40)))
    (tmp_path / "rewards.py").write_text("def always(text, fields):\n    return 1.0\n")
    reward = f"reward={tmp_path / 'rewards.py'}:always"
    for policy in (model, run):
        command = ("eval", policy, "--env", f"single_turn:{file}", "--tasks", 3)
        assert_refused(invoke(*command), "reward")
        assert ask_json(*command, "--set", reward)[-1]["success"] == 1.0
    assert invoke(*command, "--set", "reward").exit_code == 2


def test_failures_are_told(model: Path) -> None:
    result = invoke("eval", model, "--env", f"{WORLDS}:Broken", "--tasks", 2, "--split", "train")
    assert result.exit_code == 0
    assert "2 episodes failed and count as lost" in result.stderr
    assert "nobody is at the desk" in result.stderr


def test_what_cannot_be_scored(model: Path, run: Path, tmp_path: Path) -> None:
    assert_refused(invoke("eval", tmp_path / "nothing"), "nothing")
    assert_refused(invoke("eval", model, "--env", "desq"), "desq", "desk")
    assert_refused(invoke("eval", model, "--env", LETTERS, "--level", 7), "no tasks of levels [7]")
    from recollect.train.folder import create_run

    create_run(tmp_path / "begun", make_config(model))
    assert_refused(invoke("eval", tmp_path / "begun"), "no checkpoint yet")
