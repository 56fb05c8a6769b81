"""docs/environments.md shows what the commands really print and write."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from recollect.cli.env import app
from recollect.envs.scaffold import write_environment

DOC = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_floors_are_those_of_the_command():
    """One domain stands for all: its rows are the same whoever else is listed."""
    assert "recollect env ls desk --markdown" in DOC
    rows = output("ls", "desk:telecom", "--markdown").splitlines()
    assert len(rows) == 6
    assert all(f"{row}\n" in DOC for row in rows)


def test_the_sample_episode_is_played_so():
    task = "airline:4:ask.cancel-refused+seat:0"
    assert f"--task {task} --gold" in DOC
    assert output("play", "desk", "--task", task, "--gold") in DOC


def test_the_file_of_ones_own_is_the_one_written(tmp_path):
    module, _ = write_environment("guess", tmp_path)
    assert f"```python\n{module.read_text()}```" in DOC
