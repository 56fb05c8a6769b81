"""`replay simulate` ages a pool as the training loop does, which goes by optimiser steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recollect.proof.logical import all_rows
from recollect.replay.inspection import make_simulator
from recollect.replay.settings import pace
from recollect.replay.simulation import Simulation, simulate
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.train.folder import RunFolder
from recollect.train.loop import train
from recollect.train.session import open_session
from recollect.types import RunId

from .small import WORLDS, make_config, run_to_end

RUN = RunId("run")
WORLD = f"{WORLDS.with_name('replay_worlds.py')}:Easy"
FLAGS = ("replay.modes=[buffer]", "replay.buffer_rows=4", "draw.priority=equal",
         "pool.max_age=none", "pool.max_uses=none", "pool.cooldown=0", "eval.every=0",
         "checkpoint.every=0")  # fmt: skip


def versions(folder: Path) -> dict[int, set[int]]:
    """Policy versions of the fresh rows of each step."""
    found: dict[int, set[int]] = {}
    with open_reader(folder / "store.db") as store:
        for row in all_rows(store, Query(run=RUN)):
            found.setdefault(row.step, set()).add(row.policy_version)
    return found


def simulated(folder: Path, model: Path, *flags: str) -> Simulation:
    """Simulate three steps that draw every row there is."""
    config = make_config(model, *FLAGS, *flags, "replay.buffer_rows=1000", world=WORLD)
    with open_reader(folder / "store.db") as store:
        replayer, version = make_simulator(store, config)
        return simulate(replayer, 3, config.rollout.tasks_per_step, version, pace(config))


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ((), 1 + 2),
        (("train.epochs=2", "train.minibatches=2", "replay.buffer_epochs=3"), 2 * 2 + 2 * 3),
        (("train.epochs=2", "train.minibatches=2", "replay.buffer_place=among"), 2 * 2),
    ],
)
def test_a_simulation_ages_the_pool_as_the_run_goes_on_to(
    model: Path, tmp_path: Path, flags: tuple[str, ...], count: int
) -> None:
    folder = tmp_path / "run"
    run_to_end(folder, make_config(model, *FLAGS, *flags, world=WORLD))
    found = simulated(folder, model, *flags)
    with open_reader(folder / "store.db") as store:
        sampled = [row.policy_version for row in all_rows(store, Query(run=RUN))]
    assert len(found.ages) == 3 * len(sampled)
    for step in found.steps:
        assert step.mean_age == pytest.approx(step.version - np.mean(sampled))
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("steps: 3", "steps: 6", 1))
    with open_session(RunFolder(folder), {}) as session:
        assert train(session).step == 6
    real = versions(folder)
    assert real[5] == {min(real[4]) + count}
    assert [{step.version} for step in found.steps] == [real[4], real[5], real[6]]
