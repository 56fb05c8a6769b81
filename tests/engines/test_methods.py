"""PPO, notes and a continual run in two processes: what one process does, up to rounding."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from continual.small import HALVES
from recollect.continual.examination import read_examination
from recollect.telemetry.reading import read_metrics
from train.noted import ROOM, write_bank
from train.processes import run_cli
from train.small import make_model, settings

from .processes import run_ranks
from .test_launch import rows

pytestmark = pytest.mark.skipif(os.name == "nt", reason="forkserver is not there")

SMALL = ("rollout.rows_per_task=3", "train.minibatches=2", "eval.every=0")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small")


def alone_and_together(
    folder: Path, command: tuple[str, ...], flags: list[str]
) -> tuple[Path, Path]:
    """Run a command in one process and in two; gives the folders of both runs."""
    log, config = folder / "alone.log", folder / "small.yaml"
    config.write_text("run:\n  seed: 3\n  name: run\n")
    arguments = (*command, str(config), *flags)
    code = run_cli(log, *arguments, f"run.folder={folder / 'alone'}", seconds=900)
    assert code == 0, log.read_text()
    run_ranks(folder / "log", 2, *arguments, f"run.folder={folder / 'both'}")
    return folder / "alone" / "run", folder / "both" / "run"


def same_to_rounding(one: Path, other: Path, *names: str) -> list[dict[str, float]]:
    """Show that two runs have the same rows and the same figures; gives those of each step."""
    assert rows(one) == rows(other)
    first, second = read_metrics(one).steps, read_metrics(other).steps
    assert len(first) == len(second) > 1
    wanted = ("train/loss", "train/grad_norm", "train/tokens", "reward/mean", *names)
    for a, b in zip(first, second, strict=True):
        for name in wanted:
            pair = a.metrics.get(name), b.metrics.get(name)
            if pair == (None, None):
                continue
            assert math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-5), (a.step, name, pair)
    assert any(abs(line.metrics["train/loss"]) > 1e-4 for line in first)
    return [dict(line.metrics) for line in first]


@pytest.mark.parametrize("kind", ["head", "model"])
def test_ppo_with_a_critic(model: Path, tmp_path: Path, kind: str) -> None:
    flags = settings(model, *SMALL, "algo.advantage=gae", f"critic.kind={kind}",
                     "critic.learning_rate=0.02", "replay.modes=[buffer]", "replay.buffer_rows=3",
                     "train.epochs=2")  # fmt: skip
    names = ("critic/loss", "critic/grad_norm", "critic/value", "critic/explained_variance")
    steps = same_to_rounding(*alone_and_together(tmp_path, ("train",), flags), *names)
    assert steps[-1]["critic/value"] != 0
    assert steps[-1]["replay/uses"] > 0


def test_notes_that_are_kept_and_stripped(model: Path, tmp_path: Path) -> None:
    write_bank(tmp_path / "bank.db", "aaa bbb", "say much")
    flags = settings(
        model, *SMALL, "run.steps=4", *ROOM, f"notes.start_from={tmp_path / 'bank.db'}"
    )
    names = ("notes/guided", "notes/stripped", "notes/loss", "notes/added")
    both = alone_and_together(tmp_path, ("train", "--method", "het"), flags)
    steps = same_to_rounding(*both, *names)
    assert sum(step["notes/guided"] for step in steps) > 0
    assert sum(step["notes/stripped"] for step in steps) > 0


def test_a_continual_run_that_holds_its_weights(model: Path, tmp_path: Path) -> None:
    ewc = ("continual.method=ewc", "continual.ewc.fisher_rows=3", "continual.ewc.strength=100")
    more = ("run.steps=2", "train.epochs=2", "train.learning_rate=0.02", "continual.score=reward")
    flags = settings(model, *SMALL, *ewc, *more, world=HALVES)
    one, other = alone_and_together(tmp_path, ("continual",), flags)
    stages = sorted(path.name for path in (one / "stages").iterdir())
    assert len(stages) == 2
    for stage in stages:
        same_to_rounding(one / "stages" / stage, other / "stages" / stage)
    for label in ("base", "0", "1"):
        alone, shared = (read_examination(run / "examinations" / f"{label}.json")
                         for run in (one, other))  # fmt: skip
        assert [d.attempts for d in shared.domains] == [d.attempts for d in alone.domains]
        assert [d.rewards for d in shared.domains] == [d.rewards for d in alone.domains]


def test_everybody_examines_every_domain_through_its_column(model: Path, tmp_path: Path) -> None:
    """Columns differ by domain: a rank that stayed with the newest would play another policy."""
    more = ("continual.method=progressive", "continual.columns.width=8", "run.steps=3",
            "train.learning_rate=0.3", "eval.rows=4", "eval.temperature=1.0")  # fmt: skip
    flags = settings(model, *SMALL, *more, world=HALVES)
    one, other = alone_and_together(tmp_path, ("continual",), flags)
    alone, shared = (read_examination(run / "examinations" / "1.json") for run in (one, other))
    assert [d.rewards for d in shared.domains] == [d.rewards for d in alone.domains]
    assert len({reward for d in alone.domains for reward in d.rewards}) > 1
