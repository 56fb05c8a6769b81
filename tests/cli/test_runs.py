"""`recollect runs ls` and `recollect plot`, through the real commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from train.small import make_config, make_model, run_to_end

from .conftest import ask_json, assert_refused, invoke


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: a finished one, and one that only has its configuration."""
    root = tmp_path_factory.mktemp("runs")
    model = make_model(root / "model")
    run_to_end(root / "runs" / "done", make_config(model, "run.steps=2"))
    from recollect.train.folder import create_run

    create_run(root / "runs" / "begun", make_config(model))
    return root / "runs"


def test_no_runs(tmp_path: Path) -> None:
    result = invoke("runs", "ls", "--runs", tmp_path / "none")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "recollect train demo" in result.stderr
    assert ask_json("runs", "ls", "--runs", tmp_path / "none") == []


def test_runs_as_json(runs: Path) -> None:
    done, begun = ask_json("runs", "ls", "--runs", runs)
    assert (done["name"], done["step"], done["saved"], done["steps"]) == ("done", 2, 2, 2)
    assert done["finished"] is True
    assert done["rollouts"] == 16
    assert 0 <= done["reward"] <= 1
    assert 0 <= done["first_success"] <= 1
    assert begun["name"] == "begun"
    assert begun["finished"] is False
    assert begun["reward"] is None


def test_runs_as_a_table(runs: Path) -> None:
    lines = invoke("runs", "ls", "--runs", runs).stdout.splitlines()
    assert lines[0].split()[:3] == ["run", "state", "steps"]
    assert lines[1].split()[:4] == ["done", "finished", "2/2", "16"]
    assert lines[2].split()[:3] == ["begun", "unfinished", "0/3"]


def test_a_run_that_cannot_be_read_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(runs, tmp_path / "runs")
    (tmp_path / "runs" / "begun" / "config.yaml").write_text("run: {sede: 1}")
    result = invoke("runs", "ls", "--runs", tmp_path / "runs", "--json")
    assert result.exit_code == 0
    assert [run["name"] for run in json.loads(result.stdout)] == ["done"]
    assert "begun cannot be read" in result.stderr


def test_plot_draws_a_picture_and_writes_its_numbers(runs: Path, tmp_path: Path) -> None:
    result = invoke("plot", runs / "done", "--out", tmp_path / "curves.svg", "--x", "rollouts")
    assert result.exit_code == 0, result.output
    files = [Path(line) for line in result.stdout.splitlines()]
    assert tmp_path / "curves.svg" in files
    assert "<svg" in (tmp_path / "curves.svg").read_text()
    (table,) = [path for path in files if path.suffix == ".csv"]
    with table.open() as file:
        assert len(list(csv.reader(file))) > 1
    named = ask_json("plot", runs / "done", "--out", tmp_path / "curves.png")
    assert str(tmp_path / "curves.png") in named
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_plot_goes_into_the_run_by_default(runs: Path, tmp_path: Path) -> None:
    import shutil

    run = Path(shutil.copytree(runs / "done", tmp_path / "done"))
    assert invoke("plot", run).exit_code == 0
    assert (run / "curves.png").is_file()


def test_plot_of_what_is_no_run(tmp_path: Path) -> None:
    assert_refused(invoke("plot", tmp_path), "metrics.jsonl", "recollect runs ls")
