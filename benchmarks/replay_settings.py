"""Which settings of replay make the difference? Many arms beside the same twin, on the same seeds.

    python benchmarks/replay_settings.py                 all arms, three seeds
    python benchmarks/replay_settings.py --seeds 1       a look

Every arm is the demo preset in the sparse regime of replay_gain.py, where replay matters, with a
few settings changed, all at the preset's learning rate: this compares arms of replay with each
other. What replay is worth is for replay_gain.py, where the twin has its own best setting. "area"
is the mean held-out success while learning, in points.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import TWIN, Arm
from recollect.compare.study import ArmResult, Study, run_study, write_study
from replay_gain import BUFFER, REGIMES, make_rare
from results_file import spread, write_results

SETTINGS = (*REGIMES["sparse"].all_settings, *BUFFER)
BUFFER = "replay.modes=[buffer]"
ARMS = {
    "repair": ("replay.modes=[repair]",),
    "mix": ("replay.modes=[mix]",),
    "buffer": (BUFFER,),
    "repair-buffer": (),
    "mix-repair-buffer": ("replay.modes=[mix,repair,buffer]",),
    "buffer-4-updates-16-uses": (BUFFER, "replay.buffer_updates=4", "pool.max_uses=16"),
    "buffer-young": (BUFFER, "pool.max_age=8"),
    "buffer-by-advantage": (BUFFER, "draw.alpha=1"),
    "buffer-of-successes": (BUFFER, "pool.keep=successes"),
    "buffer-shape": (BUFFER, "correction.kind=shape", "correction.weight=10"),
}


def figures_of(study: Study) -> dict[str, Any]:
    """Success and replay ratio of every arm, in points."""
    return {result.arm.name: _figures(result) for result in study.arms}


def _figures(result: ArmResult) -> dict[str, Any]:
    ratios = [run.replay_ratio for run in result.runs if run.replay_ratio is not None]
    return {
        "settings": list(result.arm.settings),
        "area": spread([100 * (run.area or 0.0) for run in result.runs]),
        "final": spread([100 * (run.final or 0.0) for run in result.runs]),
        # rows trained, in all updates, over rows generated; nobody counts it without replay
        "replay_ratio": spread(ratios) if ratios else None,
    }


def show(figures: dict[str, Any]) -> Table:
    """Table, the best area first."""
    table = Table("arm", "area", "final %", "trained / generated")
    for name, found in sorted(figures.items(), key=lambda item: -item[1]["area"]["median"]):
        cells = [
            f"{found[key]['median']:{how}} ({found[key]['min']:{how}}-{found[key]['max']:{how}})"
            if found[key]
            else "-"
            for key, how in (("area", ".1f"), ("final", ".0f"), ("replay_ratio", ".1f"))
        ]
        table.add_row(name, *cells)
    table.caption = "medians, and the range of the seeds"
    return table


def main() -> None:
    """Run all arms, print the table, write benchmarks/results/replay_settings.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("compare/replay_settings"))
    args = parser.parse_args()
    make_rare()
    arms = [*(Arm(name, settings) for name, settings in ARMS.items()), TWIN]
    study = run_study(
        arms, range(100, 100 + args.seeds), args.out, source="demo", settings=SETTINGS,
        target=REGIMES["sparse"].target, jobs=args.jobs,
    )  # fmt: skip
    write_study(study)
    figures = figures_of(study)
    Console().print(show(figures))
    packages = ["torch", "transformers", "numpy"]
    path = write_results("replay_settings", figures, study.seeds, packages)
    Console().print(f"written to {path}")


if __name__ == "__main__":
    main()
