"""Folders of finished continual runs that nobody trained: settings and examinations."""

from __future__ import annotations

from pathlib import Path

from recollect.config.loading import load_config
from recollect.config.showing import as_yaml
from recollect.continual.examination import (
    DomainResult,
    Examination,
    TaskResult,
    write_examination,
)
from recollect.continual.journey import BASE, CONFIG, Journey
from recollect.continual.runner import open_journey


def finished_run(folder: Path, *flags: str, reward: float = 0.5) -> Journey:
    """Write a run over the desk's domains that earned a reward in every examination."""
    folder.mkdir(parents=True)
    config = load_config("domains", list(flags)).config
    (folder / CONFIG).write_text(as_yaml(config), encoding="utf-8")
    journey = open_journey(folder)
    tasks = tuple(TaskResult(str(n), 1, (reward,), (reward > 0.4,)) for n in range(3))
    domains = tuple(DomainResult(name, tasks, 0.0, 0.1) for name in journey.order)
    for label in (BASE, *(stage.label for stage in journey.stages)):
        path = journey.examination(label)
        path.parent.mkdir(exist_ok=True)
        write_examination(path, Examination(label, "test", 0.0, domains))
    return journey
