"""Which settings of replay make the difference? Many arms beside the same twin, on the same seeds.

    python benchmarks/replay_settings.py                 all arms, three seeds
    python benchmarks/replay_settings.py --seeds 1       a look; writes no results
    python benchmarks/replay_settings.py --group mix     one group of arms

Every arm is the demo preset with a few settings changed, all at the preset's learning rate: this
compares arms of replay with each other. What replay is worth is for replay_gain.py, where the twin
has its own best setting, and how many updates on stored rows are best at which learning rate is in
the trials of its results. Group **buffer** begins with a model that is hardly ever right; **mix**
with the shipped model and only 24 tasks, so that each comes back every sixth step. "area" is the
mean held-out success while learning, in points. Each group has a results file of its own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import TWIN, Arm
from recollect.compare.study import ArmResult, Study, run_study, write_study
from replay_gain import RARE, make_rare
from results_file import spread, write_results
from study_figures import plain, shown

BUFFER = "replay.modes=[buffer]"
MIX = "replay.modes=[mix]"


@dataclass(frozen=True)
class Group:
    """Settings of all arms, the arms with their own, and the success to reach."""

    settings: tuple[str, ...]
    arms: dict[str, tuple[str, ...]]
    target: float

    def all_arms(self) -> list[Arm]:
        """The arms in their order, the twin last."""
        return [*(Arm(name, settings) for name, settings in self.arms.items()), TWIN]


BASE = ("checkpoint.every=0", "eval.tasks=60")
GROUPS = {
    "buffer": Group(
        (*BASE, f"model.name={RARE}", "run.steps=36", "eval.every=4"),
        {
            "repair": ("replay.modes=[repair]",),
            "mix": (MIX,),
            "buffer": (BUFFER,),
            "repair-buffer": (),
            "mix-repair-buffer": ("replay.modes=[mix,repair,buffer]",),
            "buffer-4-updates-16-uses": (BUFFER, "replay.buffer_updates=4", "pool.max_uses=16"),
            "buffer-young": (BUFFER, "pool.max_age=8"),
            "buffer-by-advantage": (BUFFER, "draw.alpha=1"),
            "buffer-of-successes": (BUFFER, "pool.keep=successes"),
            "buffer-shape": (BUFFER, "correction.kind=shape", "correction.weight=10"),
        },
        0.4,
    ),
    "mix": Group(
        (*BASE, "environment.tasks=24", "run.steps=24", "eval.every=3"),
        {
            "repair": ("replay.modes=[repair]",),
            "mix": (MIX,),
            "mix-baseline": (MIX, "replay.participation=baseline"),
            "mix-off": (MIX, "replay.participation=off"),
            "mix-highest-entropy": (MIX, "draw.choice=highest_entropy"),
            "mix-lowest-entropy": (MIX, "draw.choice=lowest_entropy"),
            "mix-likeliest": (MIX, "draw.choice=likeliest"),
            "mix-gaussian": (MIX, "draw.buckets=gaussian"),
            "mix-retire": (MIX, "replay.retire=true"),
            "mix-shape": (MIX, "correction.kind=shape", "correction.weight=10"),
        },
        0.5,
    ),
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
        "reached": f"{result.summary.reached}/{result.summary.seeds}",
        "rollouts_to_target": [plain(run.rollouts_to_target.value) for run in result.runs],
        # rows trained, in all updates, over rows generated; nobody counts it without replay
        "replay_ratio": spread(ratios) if ratios else None,
    }


def show(figures: dict[str, Any]) -> Table:
    """Table, the best area first."""
    table = Table("arm", "area", "final %", "trained / generated", "reached")
    for name, found in sorted(figures.items(), key=lambda item: -item[1]["area"]["median"]):
        cells = [
            f"{found[key]['median']:{how}} ({found[key]['min']:{how}}-{found[key]['max']:{how}})"
            if found[key]
            else "-"
            for key, how in (("area", ".1f"), ("final", ".0f"), ("replay_ratio", ".1f"))
        ]
        table.add_row(name, *cells, found["reached"])
    table.caption = "medians, and the range of the seeds"
    return table


def seeds_of(args: argparse.Namespace) -> range:
    """As many seeds as were asked for; none of replay_gain's."""
    return range(100, 100 + args.seeds)


def run_group(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run all arms of a group, print its table, give its figures."""
    group = GROUPS[name]
    study = run_study(
        group.all_arms(),
        seeds_of(args),
        args.out / name,
        source="demo",
        settings=group.settings,
        target=group.target,
        jobs=args.jobs,
    )
    write_study(study)
    figures = figures_of(study)
    Console().print(f"\n[bold]{name}[/bold]", show(figures))
    return {"settings": shown(group.settings), "arms": figures}


def main() -> None:
    """Run all arms, print the tables, write benchmarks/results/replay_settings_GROUP.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", choices=list(GROUPS), action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("compare/replay_settings"))
    args = parser.parse_args()
    make_rare()
    for name in args.group or GROUPS:
        figures = run_group(name, args)
        if args.seeds >= 3:
            packages = ["torch", "transformers", "numpy"]
            seeds = seeds_of(args)
            path = write_results(f"replay_settings_{name}", figures, seeds, packages)
            Console().print(f"written to {path}")


if __name__ == "__main__":
    main()
