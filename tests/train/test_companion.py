"""What takes part in a run beside the loop, and that a run without it is untouched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from recollect.proof.traces import trace
from recollect.train.batch import Batch
from recollect.train.checkpoint import MANIFEST
from recollect.train.folder import RunFolder, create_run
from recollect.train.loop import train
from recollect.train.session import Session, open_session

from .small import Recorder, load_small, make_config


class Quiet:
    """Does nothing, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def join(self, session: Session) -> None:
        self.told.append("join")

    def trained(self, step: int, batch: Batch) -> None:
        self.told.append(f"trained {step}: {len(batch.rows)}")

    def metrics(self) -> Mapping[str, float]:
        return {}

    def save(self, folder: Path) -> None:
        (folder / "mine.txt").write_text(" ".join(self.told))
        self.told.append("save")

    def restore(self, folder: Path) -> None:
        self.told.append("restore " + (folder / "mine.txt").read_text().split()[0])


class Pull(Quiet):
    """Pulls every weight to 0 by a strong penalty."""

    def join(self, session: Session) -> None:
        parameters = session.learner.policy.trainable()
        session.learner.penalty = lambda: sum(
            ((p**2).sum() for _, p in parameters), torch.zeros(())
        )


def run(folder: Path, model: Path, companion: Quiet | None, *flags: str) -> Path:
    create_run(folder, make_config(model, "run.steps=2", "checkpoint.every=1", *flags))
    with open_session(RunFolder(folder), {"r": Recorder()}, companion) as session:
        train(session)
    return folder


def test_a_quiet_companion_changes_nothing(model: Path, tmp_path: Path) -> None:
    alone = run(tmp_path / "alone" / "r", model, None)
    quiet = Quiet()
    with_it = run(tmp_path / "with" / "r", model, quiet)
    found = [trace(alone), trace(with_it)]
    for each in found:  # its own file, and the list of files
        each["checkpoint"] = {  # type: ignore[index]
            name: seal for name, seal in each["checkpoint"].items()  # type: ignore[index]
            if name not in ("mine.txt", MANIFEST)
        }  # fmt: skip
    assert found[0] == found[1]
    assert quiet.told == ["join", "trained 1: 8", "save", "trained 2: 8", "save"]


def test_its_state_is_in_the_checkpoint(model: Path, tmp_path: Path) -> None:
    folder = run(tmp_path / "r", model, Quiet())
    again = Quiet()
    with open_session(RunFolder(folder), {}, again) as session:
        assert session.done == 2
    assert again.told == ["join", "restore join"]


def test_a_penalty_is_part_of_loss_and_gradient(model: Path, tmp_path: Path) -> None:
    from recollect.telemetry.reading import read_metrics

    alone = run(tmp_path / "alone" / "r", model, None)
    pulled = run(tmp_path / "pulled" / "r", model, Pull())
    first = [read_metrics(folder).steps[0].metrics for folder in (alone, pulled)]
    squares = sum(float((p.detach() ** 2).sum()) for _, p in load_small(model).trainable())
    gap = first[1]["train/loss"] - first[0]["train/loss"]
    assert gap == pytest.approx(squares, rel=1e-4)
    assert first[1]["train/grad_norm"] > first[0]["train/grad_norm"]
