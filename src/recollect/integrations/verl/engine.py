"""The engine of a run under verl: its workers learn, its servers sample, the loop is ours."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from recollect.config.schema.config import Config
from recollect.envs.base import Environment
from recollect.integrations.verl.generator import ClusterGenerator, Players
from recollect.integrations.verl.journal import Journal
from recollect.integrations.verl.learner import ClusterLearner, Workers
from recollect.integrations.verl.playing import lay_table
from recollect.integrations.verl.workplace import Workplace
from recollect.train.checkpoint import Checkpoint
from recollect.train.engine import Parts
from recollect.train.folder import RunFolder
from recollect.train.guards import Guard
from recollect.train.ranks import Alone


class Machines(Workers, Players, Protocol):
    """Training workers and players of one cluster."""


class ClusterEngine:
    """Opens a run on machines that are up already."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def open(
        self,
        folder: RunFolder,
        config: Config,
        environment: Environment,
        guard: Guard,
        checkpoint: Checkpoint | None,
    ) -> Parts:
        """Give the machines to the loop; the weights of a checkpoint come with its shards."""
        table = lay_table(config)
        table.close()
        done = checkpoint.step if checkpoint is not None else 0
        journal = Journal(Workplace(folder.path).folder, done)
        learner = ClusterLearner(config, self._machines, guard, journal)
        generator = ClusterGenerator(self._machines, table.fingerprints, lambda: learner.version)
        return Parts(learner, generator)


class Driver(Alone):
    """The one process that decides. Whoever started it says in a file when it should stop."""

    def __init__(self, stop: Path) -> None:
        self._stop = stop

    def signal(self) -> int | None:
        """Name the signal that the command was sent, if any."""
        try:
            return int(self._stop.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, or being written
            return None
