"""`recollect compare`, through the real command and the real loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import assert_refused, invoke

# The built-in model on a service desk; as little of it as makes a curve.
TINY = (
    "run.steps=2", "rollout.tasks_per_step=2", "rollout.rows_per_task=2", "rollout.batch_rows=4",
    "eval.tasks=3", "eval.every=1", "environment.levels=[1]",
)  # fmt: skip
ARMS = ("--arm", "fast=train.learning_rate=1e-3", "--arm", "plain=")


def test_from_start_to_end_and_again(here: Path) -> None:
    command = ("compare", "demo", *TINY, *ARMS, "--seeds", "1", "--jobs", "2", "--target", "0.5")
    result = invoke(*command, "--verbose")
    assert result.exit_code == 0, result.output
    assert "fast against plain" in result.stdout
    assert "fast, seed 0" in result.stdout
    assert "1 seed shows too little to conclude anything" in result.stdout
    assert "2/2 finished: compare/demo/" in result.stderr
    folder = here / "compare" / "demo"
    for arm in ("fast", "plain"):
        for name in ("config.yaml", "metrics.jsonl", "store.db", "log.txt"):
            assert (folder / arm / "seed-0" / name).is_file()
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")

    stamp = (folder / "fast" / "seed-0" / "metrics.jsonl").stat().st_mtime_ns
    again = invoke(*command, "--json")  # everything is finished: nothing is trained
    assert again.exit_code == 0, again.output
    assert (folder / "fast" / "seed-0" / "metrics.jsonl").stat().st_mtime_ns == stamp
    document = json.loads(again.stdout)
    assert [arm["name"] for arm in document["arms"]] == ["fast", "plain"]
    assert document == json.loads((folder / "compare.json").read_text())

    other = invoke(*command, "train.epochs=2")
    assert_refused(other, "train.epochs was 1, is 2", "--out")


def test_a_configuration_without_replay_is_refused(here: Path) -> None:
    assert_refused(invoke("compare", "demo", "replay.modes=[]"), "its own twin", "replay.modes")
    assert not (here / "compare").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--arm", "alone="), "one arm"),
        (("--arm", "a", "--arm", "b="), "no ="),
        (("--arm", "a=train.epoch=2", "--arm", "b="), "train.epochs"),
        ((*ARMS, "--target", "80"), "--target"),
        ((*ARMS, "--tune", "--grid", "train.epochs"), "--grid"),
        ((*ARMS, "--tune", "--tune-seeds", "2", "--seeds", "1001"), "judge"),
    ],
)
def test_what_cannot_be_compared(here: Path, flags: tuple[str, ...], words: str) -> None:
    assert_refused(invoke("compare", "demo", *flags), words)
    assert not (here / "compare").exists()


def test_a_grid_needs_tuning(here: Path) -> None:
    result = invoke("compare", "demo", *ARMS, "--grid", "train.epochs=1,2")
    assert result.exit_code == 2
    assert "--grid goes with --tune" in result.stderr
    result = invoke("compare", "demo", *ARMS, "--tune-seeds", 3)
    assert result.exit_code == 2
    assert "--tune-seeds goes with --tune" in result.stderr
