"""A run from head to foot: where its time goes, what is wrong, and what could not be judged."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.doctor import critic
from recollect.doctor.finding import Finding
from recollect.doctor.footprint import memory_findings
from recollect.doctor.history import History, read_history
from recollect.doctor.learning import FEWEST, learning_findings
from recollect.doctor.shortage import asked_of, replay_findings
from recollect.doctor.speed import Times, speed_findings, times_of
from recollect.doctor.stability import stability_findings
from recollect.train.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found. Ratios are None without replay; `unjudged` says what, and what it takes."""

    run: str
    step: int
    steps: int
    rollouts: int
    ratio: float | None
    asked_ratio: float | None
    times: Times
    findings: tuple[Finding, ...]
    unjudged: tuple[str, ...]


def diagnose(folder: RunFolder) -> Diagnosis:
    """Read a run, finished or under way, and find what is wrong with it. Changes nothing."""
    history = read_history(folder)
    last = history.steps[-1].metrics
    asked = asked_of(history.config) if history.config.replay.modes else None
    return Diagnosis(
        run=folder.path.name,
        step=history.done,
        steps=history.config.run.steps,
        rollouts=int(last.get("rollout/rows_total", 0)),
        ratio=last.get("replay/ratio"),
        asked_ratio=asked.ratio if asked is not None else None,
        times=times_of(history),
        findings=(
            *replay_findings(history),
            *stability_findings(history),
            *learning_findings(history),
            *critic.critic_findings(history),
            *memory_findings(history),
            *speed_findings(history),
        ),
        unjudged=tuple(_unjudged(history)),
    )


def _unjudged(history: History) -> list[str]:
    """Say what a healthy answer does not cover."""
    found, done = [], len(history.steps)
    if done < FEWEST:
        found.append(f"whether the reward grows: it takes {FEWEST} steps, not {done}")
    if history.config.algo.advantage == "gae" and done < critic.FEWEST:
        found.append(f"the critic: it takes {critic.FEWEST} steps, not {done}")
    if history.snapshot is None:
        found.append("which rows could be drawn: the store is not where the run says")
    elif history.snapshot.damaged:
        rows = f"{history.snapshot.damaged} of the newest rollouts"
        found.append(f"how {rows} ended: their frames are damaged (recollect pool verify)")
    if len(history.evaluations) < 2:
        found.append("held-out success: fewer than two evaluations")
    return found
