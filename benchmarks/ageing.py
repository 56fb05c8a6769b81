"""How old may a row be? Corrections side by side on rows of up to 64 updates' age.

    python benchmarks/ageing.py                       all corrections, five seeds
    python benchmarks/ageing.py --seeds 2 --correction clip

Every run trains on a few fresh rows and, three times as often, on stored rows drawn evenly over all
ages up to the limit, used as often as they are drawn: far more stale than any sensible setting. A
run has collapsed when its last held-out success is less than half of its best. Ratios are those of
replayed tokens in the last ten steps. Success is greedy, on held-out tasks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.config import load_config
from recollect.telemetry.reading import read_metrics
from recollect.telemetry.scores import pool
from recollect.train.folder import create_run
from recollect.train.loop import train
from recollect.train.session import open_session
from results_file import spread, write_results

OLDEST = 64
CORRECTIONS = {
    "clip, young rows": ("correction.kind=clip", "pool.max_age=8"),
    "clip": ("correction.kind=clip",),
    "shape": ("correction.kind=shape", "correction.weight=10"),
    "truncate": ("correction.kind=truncate",),
    "mask": ("correction.kind=mask",),
    "clip, whole row": ("correction.kind=clip", "correction.level=geometric"),
    "weight": ("correction.kind=weight",),
    "recomputed": ("correction.kind=clip", "correction.old_logprobs=recomputed"),
}
SETTINGS = (
    "run.steps=24",
    "rollout.tasks_per_step=2",
    "replay.modes=[buffer]",
    "replay.buffer_updates=3",
    "pool.max_uses=none",
    "draw.priority=equal",
    "eval.every=6",
    "eval.tasks=60",
    "checkpoint.every=0",
)


def run_one(settings: tuple[str, ...], seed: int, folder: Path) -> dict[str, float]:
    """Train once and read what became of it."""
    config = load_config("demo", [*SETTINGS, *settings, f"run.seed={seed}"]).config
    run = create_run(folder, config)
    with open_session(run, {}) as session:
        train(session)
    metrics = read_metrics(run.path)
    curve = [100 * (pool(line.scores).success or 0.0) for line in metrics.evaluations]
    late = [step.metrics for step in metrics.steps[-10:]]
    return {
        "final": curve[-1],
        "best": max(curve),
        "collapsed": float(curve[-1] < max(curve) / 2),
        "age_max": max(line.get("replay/age_max", 0.0) for line in late),
        "ess": statistics.mean(line.get("replay/ess", 1.0) for line in late),
        "ratio_p99": statistics.mean(line.get("replay/ratio_p99", 1.0) for line in late),
    }


def main() -> None:
    """Run all, print the table, write benchmarks/results/ageing.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--correction", choices=list(CORRECTIONS), action="append")
    args = parser.parse_args()
    table = Table("correction", "oldest", "final %", "best %", "collapsed", "ESS", "ratio p99")
    figures: dict[str, Any] = {}
    for name in args.correction or CORRECTIONS:
        rows = []
        for seed in range(args.seeds):
            with tempfile.TemporaryDirectory(prefix="recollect-ageing-") as folder:
                settings = (f"pool.max_age={OLDEST}", *CORRECTIONS[name])
                rows.append(run_one(settings, seed, Path(folder) / "run"))
        found = {key: spread([row[key] for row in rows]) for key in rows[0]}
        collapsed = sum(row["collapsed"] for row in rows)
        figures[name] = {**found, "collapsed": collapsed, "seeds": args.seeds}
        table.add_row(
            name,
            f"{found['age_max']['max']:.0f}",
            f"{found['final']['median']:.0f} ({found['final']['min']:.0f})",
            f"{found['best']['median']:.0f}",
            f"{collapsed:.0f}/{args.seeds}",
            f"{found['ess']['median']:.2f}",
            f"{found['ratio_p99']['median']:.2f}",
        )
    table.caption = "medians over the seeds, the worst seed in brackets"
    Console().print(table)
    if args.correction is None and args.seeds >= 5:
        packages = ["torch", "transformers", "numpy"]
        Console().print(
            f"written to {write_results('ageing', figures, range(args.seeds), packages)}"
        )


if __name__ == "__main__":
    main()
