"""What does each method keep? Three domains in a row, every method, several seeds.

    python benchmarks/continual.py                          everything: an hour on one quiet core
    python benchmarks/continual.py --arms sequential,replay  some arms; writes no results
    python benchmarks/continual.py --seeds 1 --quick        a look: a few steps

Arms beginning with sft+ protect supervised training in the same way, at a rate at which it forgets.
sequential and sft are what they are measured against, and sequential also trains the joint and
single references. The runs lie in --out and are gone on with, not repeated, if they are there.
Prints the mean matrix of every arm and all measures with intervals over seeds; writes
benchmarks/results/continual.json and, into --out, report.html with its pictures.
"""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from recollect.compare.methods import MethodComparison, compare_methods, comparison_document
from recollect.compare.methods_report import write_comparison
from recollect.config.loading import load_config
from recollect.continual.formats import matrix_lines
from recollect.continual.runner import create_journey, travel
from recollect.continual.screen import Screen, Style
from results_file import write_results

SETTINGS = (
    "run.steps=10",
    "environment.levels=[1]",
    "eval.split=test",
    "eval.tasks=40",
    "eval.every=0",
    "checkpoint.every=0",
    "continual.task_order=[airline,retail,telecom]",
    "continual.fusion.search_tasks=30",
)
QUICK = ("run.steps=2", "eval.tasks=4", "continual.ewc.fisher_rows=4", "rollout.tasks_per_step=2",
         "environment.options={size: 40}", "continual.fusion.search_tasks=2",
         "continual.fusion.candidates=2")  # fmt: skip
REPLAY = ("continual.replay.ratio=0.3",)
# At the preset's rate nothing is forgotten, so nothing could be protected.
SFT = ("continual.imitate=true", "train.learning_rate=3e-3")
HOLD = ("continual.ewc.strength=200",)  # fifteen times the preset's rate needs a stronger hold
ARMS: dict[str, tuple[str, ...]] = {
    "sequential": ("continual.method=sequential", "continual.references=[joint,single]"),
    "replay": ("continual.method=replay", *REPLAY),
    "replay-trajectories": (
        "continual.method=replay",
        "continual.replay.kind=trajectories",
        *REPLAY,
    ),
    "adaptive_replay": ("continual.method=adaptive_replay",),
    "ewc": ("continual.method=ewc",),
    "online_ewc": ("continual.method=online_ewc",),
    "ewc_pp": ("continual.method=ewc_pp",),
    "kl_anchor": ("continual.method=kl_anchor",),
    "progressive": ("continual.method=progressive",),
    "dynamic_expansion": ("continual.method=dynamic_expansion",),
    "fusion": ("continual.method=fusion",),
    "adaptive_fusion": ("continual.method=adaptive_fusion",),
    "sft": ("continual.method=sft", *SFT),
    "sft+replay": ("continual.method=replay", *SFT, *REPLAY),
    "sft+adaptive_replay": ("continual.method=adaptive_replay", *SFT),
    "sft+ewc": ("continual.method=ewc", *SFT, *HOLD),
    "sft+online_ewc": ("continual.method=online_ewc", *SFT, *HOLD),
    "sft+kl_anchor": ("continual.method=kl_anchor", *SFT),
    "sft+fusion": ("continual.method=fusion", *SFT),
    "sft+progressive": ("continual.method=progressive", *SFT),
}


def run_arm(name: str, seed: int, args: argparse.Namespace, console: Console) -> Path:
    """Carry one run out, or what is left of it."""
    folder: Path = args.out / name / f"seed-{seed}"
    more = [*SETTINGS, *ARMS[name], *(QUICK if args.quick else ()), *args.settings]
    config = load_config("domains", [*more, f"run.seed={seed}"]).config
    started = time.perf_counter()
    journey = create_journey(folder, config)
    if not journey.finished:
        signal = travel(journey, Screen(io.StringIO(), Style()))
        if signal is not None:
            raise SystemExit(128 + signal)
        console.print(f"{name}, seed {seed}: {time.perf_counter() - started:.0f} s")
    return folder


def figures_of(found: MethodComparison) -> dict[str, Any]:
    """The whole comparison, and the settings of every arm."""
    document: dict[str, Any] = comparison_document(found)
    return {**document, "settings": list(SETTINGS), "arms": {k: list(v) for k, v in ARMS.items()}}


def show(found: MethodComparison, console: Console) -> None:
    """Print each arm's mean matrix and all measures."""
    for method in found.methods:
        console.print(f"\n[bold]{method.name}[/bold]", highlight=False)
        for line in matrix_lines(method.mean_matrix()):
            console.print(line, highlight=False, markup=False)
    console.print()
    for line in found.lines():
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Run what is asked for, print and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="key=value settings for every arm")
    parser.add_argument("--arms", default=",".join(ARMS), help="comma-separated names")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a few steps; writes no results")
    parser.add_argument("--out", type=Path, default=Path("runs/bench-continual"))
    args = parser.parse_args()
    console = Console()
    names = args.arms.split(",")
    folders = [run_arm(name, seed, args, console) for seed in range(args.seeds) for name in names]
    found = compare_methods(folders)
    show(found, console)
    for file in write_comparison(found, args.out):
        console.print(str(file))
    whole = set(names) == set(ARMS) and args.seeds >= 3
    if whole and not args.quick and not args.settings:
        packages = ("recollect", "torch", "transformers")
        console.print(
            str(write_results("continual", figures_of(found), range(args.seeds), packages))
        )


if __name__ == "__main__":
    main()
