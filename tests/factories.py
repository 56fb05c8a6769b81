"""Records for tests: those of `recollect.proof.fake_run`, and a few that only tests want."""

from __future__ import annotations

from recollect.ledger import Mark, Run
from recollect.proof.fake_run import RUN, SMALL, TASKS, FakeRun, make_trajectory
from recollect.types import Action, RunId, Task, TrajectoryId

__all__ = [
    "LARGE",
    "RUN",
    "SMALL",
    "TASKS",
    "FakeRun",
    "make_run",
    "make_task",
    "make_trajectory",
    "person_mark",
]

LARGE = 3200  # tokens; a frame of about 20 kB


def make_task(seed: int) -> Task:
    """Make a task of one of two domains, with every field set."""
    return Task(
        environment=f"env-{seed % 3}",
        id=f"task-{seed}",
        version=str(1 + seed % 2),
        query=f"Where is parcel {seed}? ü→漢\0",
        domain=f"domain-{seed % 2}",
        split="train" if seed % 4 else "test",
        level=seed % 5,
    )


def make_run(seed: int) -> Run:
    """Make a run with a configuration."""
    return Run(RunId(f"run-{seed}"), seed=seed, config={"lr": seed / 8, "tags": ["a", None, True]})


def person_mark(id_: TrajectoryId, action: Action, reason: str = "by hand") -> Mark:
    """Make a mark that no step owns."""
    return Mark(id_, action, reason)
