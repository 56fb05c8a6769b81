"""GRPO on tau2's telecom tickets, through the command. Skipped where tau2-bench is missing."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from recollect.cli.main import app
from recollect.store import open_reader

from .installed import needs_tau2

pytestmark = needs_tau2

EXAMPLE = Path(__file__).parents[3] / "examples" / "tau2_telecom.yaml"


def test_a_short_run_completes(tmp_path: Path) -> None:
    small = ["run.steps=2", "rollout.tasks_per_step=2", "rollout.rows_per_task=2",
             "rollout.max_turn_tokens=8", "environment.options.turns=2", "eval.tasks=2",
             "eval.every=2", f"run.folder={tmp_path}", "run.name=tickets"]  # fmt: skip
    ran = CliRunner().invoke(app, ["train", str(EXAMPLE), *small])
    assert ran.exit_code == 0, ran.output
    with open_reader(tmp_path / "tickets" / "store.db") as reader:
        _, rows = reader.sql("SELECT COUNT(*) FROM trajectories", 10)
        assert rows[0][0] == 8
    text = (tmp_path / "tickets" / "metrics.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line) for line in text.splitlines()]
