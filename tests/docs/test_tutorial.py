"""docs/tutorial.md: its commands run, in its order, in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from recollect.config import load_config

from .pages import blocks, commands

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
TEXT = PAGE.read_text(encoding="utf-8")
# tests/docs/test_pages.py tries these in a short form; what fetches or sets up is no part of it.
LEFT_OUT = (
    ". .venv/bin/activate",
    "mkdir first-hour && cd first-hour",
    "recollect train demo run.steps=40",
    "recollect resume runs/demo-2",
    "recollect model fetch smol",
    "recollect plan mine.yaml",
    "recollect train mine.yaml",
)
SHOWN = [line for block in blocks("docs/tutorial.md") if block.language == "sh"
         for line in commands(block.text)]  # fmt: skip
COMMANDS = [line for line in SHOWN if line not in LEFT_OUT]


def run(command: str, folder: Path) -> str:
    """Run a line as a newcomer's shell would, with the command of this environment."""
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    environment.pop("RECOLLECT_STORE", None)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 10
    assert set(LEFT_OUT) <= set(SHOWN)
    assert all(line.startswith(("recollect ", "printf ", "for ")) for line in COMMANDS)


@pytest.mark.timeout(900)
def test_the_commands_run_in_order(tmp_path: Path) -> None:
    said = {command: run(command, tmp_path) for command in COMMANDS}
    explained = said["recollect replay explain runs/demo-1 8"]
    assert "buffer" in explained
    listed = said["recollect pool ls --store runs/demo-1 --limit 5"]
    one = re.search(r"^([0-9a-f]{32})", listed, re.MULTILINE)
    assert one is not None
    run(f"recollect pool show {one[1]} --store runs/demo-1", tmp_path)
    run(f"recollect pool why {one[1]} --store runs/demo-1", tmp_path)
    assert (tmp_path / "compare" / "demo" / "report.html").is_file()
    assert "runs" in {path.name for path in tmp_path.iterdir()}


def test_the_configuration_on_the_page_is_one(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    file = tmp_path / "mine.yaml"
    file.write_text(found[1], encoding="utf-8")
    assert load_config(str(file)).config.model.lora.rank == 16
    assert yaml.safe_load(found[1])["preset"] == "demo"
