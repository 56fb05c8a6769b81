"""`recollect plan`, through the real command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from train.small import settings

from .conftest import assert_refused, invoke

FLAGS = ("eval.every=2", "checkpoint.every=2", "run.steps=40")


def test_a_plan(model: Path, here: Path) -> None:
    result = invoke("plan", "small.yaml", *settings(model, *FLAGS), "--steps", 1)
    assert result.exit_code == 0, result.output
    words = [line.split("  ")[1].strip() for line in result.stdout.splitlines()[1:]]
    assert words[:3] == ["a step", "replay gives", "recommended"]
    assert "small, 1 step measured: 8 rollouts each" in result.stdout
    assert "1/(1-g) with g = 0." in result.stdout
    assert "40 steps" in result.stdout
    assert [path.name for path in here.iterdir()] == ["small.yaml"]


def test_the_same_as_json(model: Path, here: Path) -> None:
    result = invoke("plan", "small.yaml", *settings(model, *FLAGS), "--steps", 2, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    g = found["share"]
    assert 0 < g < 1
    assert found["bound"] == pytest.approx(1 / (1 - g))
    assert found["speedup"] <= found["bound"]
    assert found["measured"]["steps"] == 2
    assert (found["evaluations"], found["checkpoints"]) == (21, 20)
    parts = ("steps_seconds", "evaluation_seconds", "checkpoint_seconds")
    assert found["seconds"] == pytest.approx(sum(found[part] for part in parts))
    if found["updates"]:
        assert found["flags"][0] == "replay.modes=[buffer]"


def test_mistakes_measure_nothing(model: Path, here: Path) -> None:
    assert_refused(invoke("plan", "dmeo"), "dmeo", "Did you mean demo?")
    assert_refused(invoke("plan", "small.yaml", *settings(model, world="desq")), "desq", "desk")
    assert [path.name for path in here.iterdir()] == ["small.yaml"]
