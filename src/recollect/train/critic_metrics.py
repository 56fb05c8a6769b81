"""What a step's critic says of itself, under the names of `telemetry.names`."""

from __future__ import annotations

import numpy as np

from recollect.train.batch import Batch
from recollect.train.credit import explained_variance
from recollect.train.report import UpdateReport


def critic_metrics(batch: Batch, report: UpdateReport) -> dict[str, float]:
    """Gather the figures of a step's critic over fresh tokens; nothing where there is none."""
    fresh = [row.credit for row in batch.rows if row.credit is not None and row.pick is None]
    figures: dict[str, float] = {}
    if report.critic is not None:
        figures |= {"critic/loss": report.critic.loss, "critic/grad_norm": report.critic.norm}
    if not fresh:
        return figures
    known = explained_variance(fresh)
    if known is not None:
        figures["critic/explained_variance"] = known
    with np.errstate(over="ignore", invalid="ignore"):
        return figures | {
            "critic/value": float(np.concatenate([c.values for c in fresh]).mean(dtype="f8")),
            "critic/return": float(np.concatenate([c.returns for c in fresh]).mean(dtype="f8")),
            "critic/td_error": float(np.mean([c.error for c in fresh])),
            "critic/advantage": float(np.mean([c.priority("advantage") for c in fresh])),
        }
