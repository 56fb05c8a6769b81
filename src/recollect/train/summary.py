"""What became of a run, read from its folder."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from recollect.telemetry.reading import RunMetrics, read_metrics
from recollect.telemetry.scores import pool
from recollect.train.checkpoint import last_saved_step
from recollect.train.folder import RunFolder


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run has come: `step` in its metrics, `saved` in its checkpoints.

    Success rates are None where nothing was evaluated yet, the reward before the first step.
    """

    name: str
    step: int
    saved: int
    steps: int
    rollouts: int
    failed: int
    reward: float | None
    first_success: float | None
    last_success: float | None

    @property
    def finished(self) -> bool:
        """Tell whether the last step is done and saved."""
        return self.saved >= self.steps


def state_of(folder: RunFolder) -> RunState:
    """Read a run's state from its configuration, metrics and checkpoints."""
    config = folder.load()
    metrics = _metrics(folder)
    last = metrics.last if metrics else None
    evaluations = metrics.evaluations if metrics else ()
    return RunState(
        name=folder.path.name,
        step=last.step if last else 0,
        saved=last_saved_step(folder.checkpoints),
        steps=config.run.steps,
        rollouts=int(last.metrics.get("rollout/rows_total", 0)) if last else 0,
        failed=int(last.metrics.get("health/failed_episodes", 0)) if last else 0,
        reward=last.metrics.get("reward/mean") if last else None,
        first_success=pool(evaluations[0].scores).success if evaluations else None,
        last_success=pool(evaluations[-1].scores).success if evaluations else None,
    )


def summarise(folder: RunFolder) -> list[str]:
    """Say in a few lines what happened and where to look."""
    state = state_of(folder)
    config = folder.load()
    store = shlex.quote(str(folder.store(config))) if config.store.path else folder.path
    lines = []
    if state.first_success is not None and state.last_success is not None:
        gain = 100 * (state.last_success - state.first_success)
        lines.append(
            f"Held-out success {100 * state.first_success:.1f}% -> "
            f"{100 * state.last_success:.1f}% ({gain:+.1f} points) "
            f"after {state.rollouts:,} rollouts in {state.step} steps."
        )
    if state.failed:
        total = state.rollouts + state.failed
        lines.append(
            f"Dropped:      {state.failed:,} of {total:,} episodes failed and never trained. "
            f"Why: recollect pool sql --store {store} "
            "\"SELECT data FROM events WHERE kind = 'episode_failed'\""
        )
    path = folder.path
    lines += [
        f"Model:        {path / 'checkpoints' / f'step_{state.saved:06d}'}",
        f"Trajectories: recollect pool ls --store {store}",
        f"Curves:       recollect plot {path}",
    ]
    return lines


def _metrics(folder: RunFolder) -> RunMetrics | None:
    return read_metrics(folder.path) if folder.metrics.is_file() else None
