"""Continual runs of a few steps with a model of a few thousand weights."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import TextIO

import torch

from recollect.config.loading import load_config
from recollect.continual.fisher import trained_weights
from recollect.continual.journey import Journey
from recollect.continual.runner import create_journey, travel
from recollect.continual.screen import Screen, Style
from recollect.train.checkpoint import load_checkpoint
from recollect.train.parts import policy_from
from train.small import settings

HALVES = f"{Path(__file__).with_name('worlds.py')}:Halves"


def journey_of(folder: Path, model: Path | str, *flags: str, world: str = HALVES) -> Journey:
    """Make a small continual run of two domains."""
    small = settings(Path(model), world=world)
    more = ["run.steps=2", "eval.every=0", "checkpoint.every=1", "train.learning_rate=0.02"]
    return create_journey(folder, load_config(None, [*small, *more, *flags]).config)


def go(journey: Journey, stream: TextIO | None = None, style: Style | None = None) -> int | None:
    """Carry it out, showing it to a stream or nobody."""
    return travel(journey, Screen(stream or io.StringIO(), style or Style()))


def branch(journey: Journey, folder: Path, *flags: str, world: str = HALVES) -> Journey:
    """Begin another run with the first stage of a finished one, for methods that share it."""
    other = journey_of(folder, journey.config.model.name, *flags, world=world)
    first = journey.stage(0)
    shutil.copytree(journey.run(first).path, other.run(first).path)
    for label in ("base", "0"):
        target = other.examination(label)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(journey.examination(label), target)
    return other


DESK = "desk:airline,retail"
_DESK = (
    "environment.options={shaped: true, size: 16}",
    "environment.levels=[1]",
    "rollout.max_tokens=400",
    "rollout.max_turn_tokens=32",
    "rollout.max_turns=4",
    "rollout.rows_per_task=16",
    "rollout.batch_rows=32",
    "train.pack_tokens=2000",
    # Two updates a step: a penalty acts from the second on, even where one step has no signal.
    "train.epochs=2",
    "train.learning_rate=3e-4",
    "eval.tasks=2",
    "continual.ewc.fisher_rows=4",
    "continual.fusion.search_tasks=2",
    "continual.fusion.candidates=3",
)


def desk_journey(folder: Path, *flags: str) -> Journey:
    """Make a small continual run of the tiny model over two desk domains."""
    return journey_of(folder, "tiny", *_DESK, *flags, world=DESK)


def desk_branch(journey: Journey, folder: Path, *flags: str) -> Journey:
    """Give a finished desk run another second stage."""
    return branch(journey, folder, *_DESK, *flags, world=DESK)


def stage_weights(journey: Journey, number: int) -> dict[str, torch.Tensor]:
    """The weights that a stage's training ended with."""
    stage = journey.stage(number)
    checkpoint = load_checkpoint(journey.checkpoint(stage))
    return trained_weights(policy_from(journey.run(stage).load(), checkpoint))


def distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Largest difference of two sets of weights."""
    return max(float((value - other[name]).abs().max()) for name, value in one.items())
