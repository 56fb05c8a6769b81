"""Runs of several processes through the real command line: same rows, deaths, resumption."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.engines.launch import world_size
from recollect.proof.traces import trace
from recollect.store import open_reader
from recollect.store.records import Query
from train.processes import run_cli
from train.small import make_model, settings

from .processes import run_ranks, start_ranks, wait

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

# Groups of three, so that the shares are uneven; stored rows in the gradient; two minibatches.
FLAGS = (
    "run.steps=4",
    "run.name=run",
    "run.seed=3",
    "rollout.rows_per_task=3",
    "train.minibatches=2",
    "checkpoint.every=1",
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_rows=3",
    "draw.choice=random",
    "eval.every=4",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small")


def command(model: Path, root: Path) -> list[str]:
    root.mkdir(parents=True, exist_ok=True)
    (root / "small.yaml").write_text("run:\n  seed: 3\n")
    return ["train", str(root / "small.yaml"), *settings(model, *FLAGS), f"run.folder={root}"]


@pytest.fixture(scope="module")
def alone(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("alone")
    assert run_cli(root / "log", *command(model, root), seconds=900) == 0, (
        root / "log"
    ).read_text()
    return root / "run"


@pytest.fixture(scope="module")
def both(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("both")
    run_ranks(root / "log", 2, *command(model, root))
    return root / "run"


def rows(run: Path) -> dict[str, list[int]]:
    """Tokens of every row that the run sampled, by id."""
    with open_reader(run / "store.db") as reader:
        ids = [row.id for row in reader.rows(Query(), limit=10_000).rows]
        return {t.id: t.tokens.tolist() for t in reader.get(ids)}


def draws(run: Path) -> list[Any]:
    with open_reader(run / "store.db") as reader:
        return reader.sql("SELECT step, slot, trajectory, probability FROM draws ORDER BY 1, 2")[1]


def losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["metrics"]["train/loss"] for line in lines if "train/loss" in str(line)]


def same_to_rounding(one: Path, other: Path) -> None:
    assert rows(one) == rows(other)
    assert [d[:3] for d in draws(one)] == [d[:3] for d in draws(other)]
    assert len(losses(one)) == 4
    for a, b in zip(losses(one), losses(other), strict=True):
        assert math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5), (losses(one), losses(other))


def test_one_and_two_processes_train_on_the_same_rows(alone: Path, both: Path) -> None:
    assert draws(alone)
    same_to_rounding(alone, both)


@pytest.mark.parametrize(("victim", "then"), [(0, 2), (1, 1)])
def test_a_killed_rank_ends_all_with_words_and_the_run_goes_on(
    model: Path, tmp_path: Path, alone: Path, both: Path, victim: int, then: int
) -> None:
    ranks = start_ranks(tmp_path / "log", 2, *command(model, tmp_path))
    run, survivor = tmp_path / "run", 1 - victim
    while ranks[0].is_alive() and not (run / "checkpoints" / "step_000002").exists():
        time.sleep(0.01)
    ranks[victim].kill()
    codes = wait(ranks)
    said = Path(f"{tmp_path / 'log'}.{survivor}").read_text()
    assert codes[survivor] == 2, (codes, said)
    assert f"error: Rank {survivor}" in said, said
    if then == 2:
        run_ranks(tmp_path / "again", 2, "resume", run)
        assert trace(run) == trace(both)  # bit for bit
    else:
        assert run_cli(tmp_path / "again", "resume", run, seconds=900) == 0
        same_to_rounding(run, alone)


def test_what_one_process_began_two_go_on_with(model: Path, tmp_path: Path, alone: Path) -> None:
    half = [*command(model, tmp_path), "run.steps=2", "train.schedule=constant"]
    assert run_cli(tmp_path / "log", *half, seconds=900) == 0
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("steps: 2", "steps: 4"))
    run_ranks(tmp_path / "again", 2, "resume", tmp_path / "run")
    same_to_rounding(tmp_path / "run", alone)


def test_a_mistake_is_told_once_and_ends_everybody(model: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("run:\n  seed: 1\n")
    codes = wait(start_ranks(tmp_path / "log", 2, *command(model, tmp_path)))
    assert codes[0] == 2
    assert codes[1] is not None
    assert "holds a run already" in Path(f"{tmp_path / 'log'}.0").read_text()


def test_a_launcher_is_known_by_its_variables() -> None:
    assert world_size({}) == 1
    assert world_size({"WORLD_SIZE": "4"}) == 1  # of some other tool: nobody said which one we are
    assert world_size({"WORLD_SIZE": "4", "RANK": "0"}) == 4
