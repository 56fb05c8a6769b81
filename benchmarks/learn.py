"""Does the demo learn? The demo preset on several seeds, held-out success before and after.

    python benchmarks/learn.py                  three seeds of the demo preset
    python benchmarks/learn.py --seeds 5 train.learning_rate=5e-4

Success is greedy, on the preset's held-out tasks; every seed starts from the same model. Seconds
are those of the training steps, without evaluations.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recollect.config import load_config
from recollect.telemetry.progress import open_screen
from recollect.telemetry.reading import read_metrics
from recollect.telemetry.scores import pool
from recollect.train.folder import create_run
from recollect.train.loop import train
from recollect.train.session import open_session
from results_file import spread, write_results


def run_seed(preset: str, seed: int, settings: list[str], folder: Path) -> dict[str, float]:
    """Train one seed and read what it reached from its own metrics."""
    config = load_config(preset, [*settings, f"run.seed={seed}"]).config
    run = create_run(folder / f"seed-{seed}", config)
    with open_session(run, {"screen": open_screen(interval=20)}) as session:
        train(session)
    metrics = read_metrics(run.path)
    before, after = metrics.evaluations[0], metrics.evaluations[-1]
    return {
        "seed": seed,
        "before": 100 * (pool(before.scores).success or 0.0),
        "after": 100 * (pool(after.scores).success or 0.0),
        "rollouts": metrics.steps[-1].metrics["rollout/rows_total"],
        "seconds": sum(step.metrics["time/step"] for step in metrics.steps),
    }


def main() -> None:
    """Run the seeds, print the table, write benchmarks/results/learn.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("settings", nargs="*", help="key=value settings on top of the preset")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recollect-learn-") as folder:
        rows = [
            run_seed(args.preset, seed, args.settings, Path(folder)) for seed in range(args.seeds)
        ]
    table = Table("seed", "before %", "after %", "gain", "rollouts", "training s")
    for row in rows:
        gain = row["after"] - row["before"]
        table.add_row(
            f"{row['seed']:.0f}", f"{row['before']:.1f}", f"{row['after']:.1f}", f"{gain:+.1f}",
            f"{row['rollouts']:,.0f}", f"{row['seconds']:.0f}",
        )  # fmt: skip
    Console().print(table)
    gains = [row["after"] - row["before"] for row in rows]
    figures = {"rows": rows, "gain_points": spread(gains), "mean_gain": sum(gains) / len(gains)}
    packages = ["torch", "transformers", "numpy"]
    path = write_results("learn", figures, [int(row["seed"]) for row in rows], packages)
    Console().print(f"mean gain {figures['mean_gain']:+.1f} points; written to {path}")


if __name__ == "__main__":
    main()
