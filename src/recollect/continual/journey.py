"""The folder of a continual run: where everything is, and how far it has come.

    continual.yaml               the configuration
    stages/00-airline/           an ordinary run folder for each piece of training
    states/00/                   what the method keeps after a stage, such as a merged model
    starts/01/                   a model that the method prepared for a stage to begin with
    examinations/base.json       one file for each model that was examined
    metrics.json, *.png          the results

Every product is written under a hidden name and renamed: it is there as a whole or not at all, so
whoever is killed goes on with the first that is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recollect.config.schema.config import Config
from recollect.continual.examination import Examination, read_examination
from recollect.continual.intervals import TaskScores, build_matrix
from recollect.continual.matrix import ScoreMatrix
from recollect.continual.schedule import Stage, stages_of
from recollect.train.checkpoint import flush, flush_all, last_saved_step, newest_checkpoint
from recollect.train.folder import CONTINUAL, RunFolder

CONFIG = CONTINUAL
BASE = "base"


@dataclass(frozen=True, slots=True)
class Journey:
    """One continual run: its folder, configuration and order of domains."""

    path: Path
    config: Config
    order: tuple[str, ...]

    @property
    def title(self) -> str:
        """What the run is called beside others: its method, after sft+ where it imitates."""
        method: str = self.config.continual.method
        if "replay" in method and self.config.continual.replay.kind == "trajectories":
            method += "-trajectories"
        if not self.config.continual.imitate or method == "sft":
            return method
        return "sft" if method == "sequential" else f"sft+{method}"

    @property
    def stages(self) -> list[Stage]:
        """Everything that is trained, in order."""
        return stages_of(self.config, self.order)

    def stage(self, number: int) -> Stage:
        """The stage of the number-th domain."""
        return self.stages[number]

    def run(self, stage: Stage) -> RunFolder:
        """The run folder of a stage."""
        return RunFolder(self.path / "stages" / stage.name)

    def is_trained(self, stage: Stage) -> bool:
        """Tell whether a stage has reached its last step and saved it; a damaged save is none.

        It reads the whole checkpoint: stages after it would begin with whatever it holds.
        """
        found = newest_checkpoint(self.run(stage).checkpoints)
        return found is not None and found.step >= stage.steps

    def checkpoint(self, stage: Stage) -> Path:
        """The model that a finished stage's training ended with."""
        saved = last_saved_step(self.run(stage).checkpoints)
        return self.run(stage).checkpoints / f"step_{saved:06d}"

    def state(self, number: int) -> Path:
        """What the method keeps after a stage."""
        return self.path / "states" / f"{number:02d}"

    def start(self, number: int) -> Path:
        """The model that the method prepared for a stage to begin with."""
        return self.path / "starts" / f"{number:02d}"

    def examination(self, label: str) -> Path:
        """The file of a model's examination."""
        return self.path / "examinations" / f"{label}.json"

    def examined(self, label: str) -> Examination | None:
        """Read how a model did, None where it was not examined yet."""
        path = self.examination(label)
        return read_examination(path) if path.is_file() else None

    @property
    def examinations(self) -> dict[str, Examination]:
        """All examinations so far, by model."""
        labels = [BASE, *(stage.label for stage in self.stages)]
        found = {label: self.examined(label) for label in labels}
        return {label: each for label, each in found.items() if each is not None}

    @property
    def finished(self) -> bool:
        """Tell whether everything is trained and examined."""
        return len(self.examinations) == 1 + len(self.stages)

    def scores(self) -> TaskScores:
        """Scores by model, domain and task; those of single models gathered in one row."""
        score = self.config.continual.score
        found: dict[str, dict[str, list[float]]] = {}
        for label, each in self.examinations.items():
            if label.startswith("single-"):
                domain = label.removeprefix("single-")
                found.setdefault("single", {})[domain] = each.of(domain).by_task(score)
            else:
                found[label] = {r.domain: r.by_task(score) for r in each.domains}
        return found

    def matrix(self) -> ScoreMatrix:
        """The score matrix so far."""
        return build_matrix(self.order, self.scores())


def write_whole(target: Path, write: Callable[[Path], None]) -> Path:
    """Let `write` fill a folder that gets its name only when everything in it is on the disk."""
    if target.is_dir():
        return target
    draft = target.with_name(f".{target.name}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    write(draft)
    flush_all(draft)
    draft.rename(target)
    flush(target.parent)
    return target
