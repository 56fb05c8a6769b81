"""What a step's replay says of itself, under the names of `telemetry.names`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recollect.replay.eviction import counted_bytes
from recollect.replay.pick import Pick
from recollect.replay.replayer import Replayer
from recollect.telemetry.names import within
from recollect.train.batch import Batch
from recollect.train.drawn import Drawn
from recollect.train.replayed import Replayed
from recollect.train.report import UpdateReport
from recollect.train.totals import Totals


def replay_metrics(
    replayer: Replayer | None, drawn: Drawn, batch: Batch, report: UpdateReport, totals: Totals
) -> dict[str, float]:
    """Gather the figures of a step's replay; nothing at all where there is none."""
    if replayer is None:
        return {}
    pool = replayer.pool
    return {
        "replay/pool_rows": float(len(pool)),
        "replay/pool_bytes": float(counted_bytes(pool).sum()),
        "replay/eligible": float(replayer.eligible),
        "replay/retired": float(replayer.book.retired),
        "replay/ratio": totals.trained / totals.rows if totals.rows else float("nan"),
        "replay/saved": float(totals.saved),
        "replay/push": batch.push,
        **{
            within("replay/bucket", name): float(tasks)
            for name, tasks in replayer.book.buckets.items()
        },
        **_draws(replayer, drawn.every, report.replayed),
        **_uses(report),
        **_ages(replayer),
        **_limits(replayer),
        "replay/used_total": float(totals.replayed),
    }


def _draws(
    replayer: Replayer, picks: Sequence[Pick], replayed: Replayed | None
) -> dict[str, float]:
    modes = [pick.mode for pick in picks]
    repaired = {pick.group for pick in picks if pick.mode == "repair"}
    used = len(replayed.uses) if replayed else 0
    figures = {
        "replay/draws": float(len(picks)),
        "replay/uses": float(used),
        "replay/dropped": float(len(picks) - used),
        "replay/mixed": float(modes.count("mix")),
        "replay/repaired": float(len(repaired)),
        "replay/buffered": float(modes.count("buffer")),
    }
    if picks:
        ages = [pick.age for pick in picks]
        figures |= {"replay/age_mean": float(np.mean(ages)), "replay/age_max": float(max(ages))}
    if len(replayer.pool):
        figures["replay/uses_mean"] = float(replayer.pool.uses.mean())
        figures["replay/uses_max"] = float(replayer.pool.uses.max())
    return figures


def _ages(replayer: Replayer) -> dict[str, float]:
    """Ages of the rows in the pool, for which there is a policy that sampled them."""
    ages = replayer.ages
    ages = ages[ages >= 0]
    if not ages.size:
        return {}
    return {
        "replay/pool_age_mean": float(ages.mean(dtype=np.float64)),
        "replay/pool_age_max": float(ages.max()),
    }


def _limits(replayer: Replayer) -> dict[str, float]:
    """The limits of the step, where rules move them."""
    if replayer.adaptation is None:
        return {}
    limits = replayer.limits
    figures = {
        "replay/max_age": limits.max_age,
        "replay/max_uses": limits.max_uses,
        "replay/max_rows": limits.max_rows,
    }
    known = {name: float(value) for name, value in figures.items() if value is not None}
    return {"replay/level": limits.level, **known}


def _uses(report: UpdateReport) -> dict[str, float]:
    replayed = report.replayed
    if replayed is None:
        return {}
    return {
        "replay/loss_fresh": report.loss - replayed.loss,
        "replay/loss": replayed.loss,
        "replay/ratio_mean": replayed.ratios.mean,
        "replay/ratio_p50": replayed.ratios.p50,
        "replay/ratio_p99": replayed.ratios.p99,
        "replay/ratio_max": replayed.ratios.max,
        "replay/ess": replayed.ratios.ess,
        "replay/kl": replayed.kl,
        "replay/clip_share": replayed.clip_share,
    }
