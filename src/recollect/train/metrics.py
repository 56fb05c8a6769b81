"""What a step says of itself, under the names of `telemetry.names`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recollect.rollout.collector import Collected
from recollect.telemetry.names import within
from recollect.train.batch import Batch
from recollect.train.memory import peak_memory
from recollect.train.report import UpdateReport
from recollect.train.totals import Totals
from recollect.trajectory import Trajectory
from recollect.types import StopReason, Task

_CUT = (StopReason.TOKEN_LIMIT, StopReason.TURN_LIMIT, StopReason.TIME_LIMIT)
_NAN = float("nan")


def step_metrics(
    tasks: Sequence[Task],
    collected: Collected,
    batch: Batch,
    report: UpdateReport,
    seconds: Mapping[str, float],
    totals: Totals,
) -> dict[str, float]:
    """Gather the figures of one step; `seconds` are by phase, `totals` include this step.

    What a step did not measure is left out. NaN is what should be a number and is not.
    """
    rows = collected.trajectories
    return {
        **_rewards(rows, batch),
        **_domains(tasks, rows),
        **_rollout(collected, totals),
        **_mismatch(report),
        **_update(report),
        **_policy(rows, report),
        **_speed(rows, seconds),
        "health/failed_episodes": float(totals.failed),
        "health/bad_steps": float(totals.skipped),
    }


def mean(values: Sequence[float]) -> float:
    """Mean; NaN of none, infinite where the sum of absurd numbers is."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.mean(values)) if values else _NAN


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of all there is (n, not n - 1); NaN of none."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.std(values)) if values else _NAN


def _rewards(rows: Sequence[Trajectory], batch: Batch) -> dict[str, float]:
    rewards = [t.reward.value for t in rows]
    groups = {t.group for t in rows}
    alive = {row.trajectory.group for row in batch.training if row.pick is None}
    return {
        "reward/mean": mean(rewards),
        "reward/std": deviation(rewards),
        "reward/success": mean([t.success for t in rows]),
        "reward/dead_groups": 1 - len(alive) / len(groups) if groups else _NAN,
    }


def _domains(tasks: Sequence[Task], rows: Sequence[Trajectory]) -> dict[str, float]:
    domains = {task.key: task.domain for task in tasks}
    found: dict[str, list[Trajectory]] = {}
    for row in rows:
        found.setdefault(domains[row.task], []).append(row)
    metrics = {}
    for domain, here in sorted(found.items()):
        metrics[within("reward/mean", domain)] = mean([t.reward.value for t in here])
        metrics[within("reward/success", domain)] = mean([t.success for t in here])
    return metrics


def _rollout(collected: Collected, totals: Totals) -> dict[str, float]:
    rows = collected.trajectories
    count, sampled = max(1, len(rows)), sum(t.sampled_count for t in rows)
    return {
        "rollout/rows": float(len(rows)),
        "rollout/rows_total": float(totals.rows),
        "rollout/failed": float(len(collected.failures)),
        "rollout/tokens": float(sum(t.tokens.size for t in rows)),
        "rollout/sampled_tokens": float(sampled),
        "rollout/turns": collected.turns / count,
        "rollout/length": sampled / count,
        "rollout/truncated": sum(t.stop in _CUT for t in rows) / count,
    }


def _mismatch(report: UpdateReport) -> dict[str, float]:
    found = report.mismatch
    if found is None:
        return {}
    return {
        "rollout/mismatch_mean": found.ratios.mean,
        "rollout/mismatch_p99": found.ratios.p99,
        "rollout/mismatch_max": found.ratios.max,
        **({} if found.capped is None else {"rollout/mismatch_capped": found.capped}),
    }


def _update(report: UpdateReport) -> dict[str, float]:
    return {
        "train/loss": report.loss,
        "train/grad_norm": report.grad_norm,
        "train/learning_rate": report.learning_rate,
        "train/tokens": float(report.tokens),
        "train/rows": float(report.rows),
        "train/skipped_steps": float(report.skipped),
    }


def _policy(rows: Sequence[Trajectory], report: UpdateReport) -> dict[str, float]:
    metrics = {}
    known = [t.entropies for t in rows if t.entropies is not None]
    if known:
        tokens = sum(part.size for part in known)
        metrics["policy/entropy"] = sum(float(part.sum(dtype="f8")) for part in known) / tokens
    if report.drift is not None:
        metrics |= {
            "policy/kl": report.drift.kl,
            "policy/ratio_max": report.drift.ratio_max,
            "policy/clip_share": report.drift.clip_share,
            "policy/logprob_diff": report.drift.logprob_difference,
        }
    return metrics


def _speed(rows: Sequence[Trajectory], seconds: Mapping[str, float]) -> dict[str, float]:
    whole = sum(seconds.values())
    sampled, held = sum(t.sampled_count for t in rows), peak_memory()
    return {
        **{f"time/{phase}": value for phase, value in seconds.items()},
        "time/step": whole,
        "perf/rows_per_s": len(rows) / whole if whole else 0.0,
        "perf/tokens_per_s": sampled / whole if whole else 0.0,
        **({} if held is None else {"perf/peak_memory": float(held)}),
    }
