"""`recollect config`, through the real command."""

from __future__ import annotations

import json
from pathlib import Path

from recollect.config.loading import load_config
from recollect.train.folder import create_run

from .conftest import assert_refused, invoke


def test_diff_names_what_changed_with_presets_resolved(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("preset: demo\ntrain:\n  learning_rate: 3e-4\nreplay:\n  modes: []\n")
    result = invoke("config", "diff", "demo", mine, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [
        {"key": "train.learning_rate", "before": "0.0002", "after": "0.0003"},
        {"key": "replay.modes", "before": "[repair, buffer]", "after": "[]"},
    ]


def test_diff_of_a_run_with_what_it_was_started_from(tmp_path: Path) -> None:
    run = create_run(tmp_path / "first", load_config("demo", ["run.steps=7"]).config)
    result = invoke("config", "diff", "demo", run.path)
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["run.name", '""', "first"],
        ["run.steps", "32", "7"],
    ]


def test_no_difference(tmp_path: Path) -> None:
    result = invoke("config", "diff", "demo", "demo")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "same" in result.stderr


def test_an_unknown_configuration_is_refused() -> None:
    assert_refused(invoke("config", "diff", "demo", "deno"), "demo")


def test_the_schema_is_json_that_knows_the_settings() -> None:
    schema = json.loads(invoke("config", "schema").stdout)
    assert schema["title"] == "Recollect configuration"
    assert {"preset", "run", "replay"} <= set(schema["properties"])
