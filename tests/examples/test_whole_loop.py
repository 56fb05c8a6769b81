"""The loop in one file does what the real one does: the same tasks, rewards and losses."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recollect.config.loading import load_config
from recollect.telemetry.reading import read_metrics
from train.processes import start
from train.small import LETTERS, make_model, run_to_end, settings

PATH = Path(__file__).parents[2] / "examples" / "whole_loop.py"
ROWS_ALIKE = "algo.aggregation=seq-mean-token-mean"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("whole_loop", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["whole_loop"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_it_is_short_and_stands_alone() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    assert not [name for name in imported if name.startswith("recollect.train")]
    assert not [name for name in imported if name.startswith(("trl", "peft", "accelerate"))]


def test_its_defaults_are_those_of_the_demo(example: ModuleType) -> None:
    demo, ours = load_config("demo").config, example.Settings()
    assert demo.algo.aggregation in ROWS_ALIKE
    assert ours.model == demo.model.name
    assert ours.environment == demo.environment.name
    assert ours.levels == demo.environment.levels
    assert ours.tasks is demo.environment.tasks is None
    for room in (demo.run, demo.rollout, demo.train):
        for name in set(type(room).model_fields) & set(vars(ours)):
            assert getattr(ours, name) == getattr(room, name), name
    assert ours.clip == demo.algo.clip_high == demo.algo.clip_low


def compare(example: ModuleType, run: Path, flags: list[str], **given: Any) -> None:
    run_to_end(run, load_config(None, flags).config)
    lines = read_metrics(run).steps
    results = list(example.train(example.Settings(**given)))
    assert len(lines) == len(results) == 3
    for line, result in zip(lines, results, strict=True):
        assert result.step == line.step
        assert result.reward == pytest.approx(line.metrics["reward/mean"], abs=1e-9)
        assert result.success == pytest.approx(line.metrics["reward/success"], abs=1e-9)
        assert result.trained == line.metrics["train/rows"]
        assert result.loss == pytest.approx(line.metrics["train/loss"], abs=1e-5)
        assert result.gradient == pytest.approx(line.metrics["train/grad_norm"], rel=1e-4)
    assert any(result.gradient > 0.01 for result in results)


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_same_losses_as_the_real_loop(example: ModuleType, tmp_path: Path, epochs: int) -> None:
    model = make_model(tmp_path / "model")
    flags = settings(model, "run.seed=11", "eval.every=0", f"train.epochs={epochs}", ROWS_ALIKE)
    given = {
        "model": str(model),
        "environment": LETTERS,
        "levels": None,
        "seed": 11,
        "steps": 3,
        "tasks_per_step": 2,
        "rows_per_task": 4,
        "max_tokens": 120,
        "max_turn_tokens": 6,
        "learning_rate": 0.01,
        "epochs": epochs,
    }
    compare(example, tmp_path / "run", flags, **given)


def test_the_same_losses_with_the_built_in_model_and_the_desk(
    example: ModuleType, tmp_path: Path
) -> None:
    flags = ["run.steps=3", "run.seed=2", "environment.levels=[1]", "environment.tasks=6"]
    flags += ["rollout.tasks_per_step=2", "rollout.rows_per_task=4", "eval.every=0"]
    flags += ["model.dtype=float32", "model.device=cpu", ROWS_ALIKE]
    flags += ["rollout.max_tokens=480", "rollout.max_turn_tokens=40", "rollout.max_turns=6"]
    flags += ["train.learning_rate=2e-4"]
    given = {"model": "tiny", "levels": (1,), "tasks": 6, "seed": 2, "steps": 3}
    given |= {"tasks_per_step": 2, "rows_per_task": 4}
    compare(example, tmp_path / "run", flags, **given)


def _script(log: str, arguments: list[str]) -> None:
    sys.argv = [str(PATH), *arguments]
    with open(log, "w") as file, redirect_stdout(file):
        runpy.run_path(str(PATH), run_name="__main__")


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    command = ["--model", str(model), "--environment", LETTERS, "--steps", "1"]
    child = start(_script, str(tmp_path / "log"), command)
    child.join(60)
    assert child.exitcode == 0
    text = (tmp_path / "log").read_text()
    assert text.startswith("step   1 | reward ")
    assert text.count("\n") == 1
