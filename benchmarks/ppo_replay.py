"""What does a replay buffer buy PPO? Seed 003's presets against `off`, as set and each at its best.

    python benchmarks/ppo_replay.py                        everything: hours on two cores
    python benchmarks/ppo_replay.py --regime sparse        one regime
    python benchmarks/ppo_replay.py --same --seeds 2       a look, without tuning; writes no results
    python benchmarks/ppo_replay.py --arm standard --arm off --regime sparse

The seed's table of its presets was simulated; this one is measured. Every regime is compared twice
on the same seeds: **same**, all presets with the same settings; and **best**, `standard` and `off`
with their own best learning rate and epochs, found with the same budget on other seeds. Only the
second says what replay is worth: `off` is then the strongest run without replay.

Starts and tasks are those of replay_gain; a step generates four groups of eight rows, for which the
presets' sizes are made. (With one group a step, in a look with one seed, `off` lost a third of what
it had learnt: most such steps have no reward at all.)

Rollouts and seconds are those until held-out greedy success reaches the regime's target. A seed has
*collapsed* if it diverged, or ended below half of the best success it had reached. The runs lie in
--out and are not repeated if they are there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import Arm
from recollect.compare.comparison import compare
from recollect.compare.measures import Measures
from recollect.compare.study import ArmResult, Study, run_study, write_study
from recollect.compare.tuning import Axis, Tuning
from replay_gain import REGIMES as GAIN
from replay_gain import Regime, make_rare
from results_file import write_results
from study_figures import figures_of, plain, shown, spelt

# The baseline comes last.
PRESETS = ("standard", "high-efficiency", "prioritized", "conservative", "off")
TUNED = ("standard", "off")
TUNING_SEEDS = (1000, 1001)
LEAST_BEST = 0.05  # a run that never got anywhere has nothing to collapse from


def grid(*rates: str) -> tuple[Axis, ...]:
    """Learning rates and epochs that every arm tries."""
    return (Axis("train.learning_rate", rates), Axis("train.epochs", ("1", "4")))


STEP = ("rollout.tasks_per_step=4", "eval.every=2")
REGIMES = {
    # Runs without replay learn to a third and stay there.
    "sparse": replace(GAIN["sparse"], steps=24, target=0.3),
    "dense": replace(GAIN["dense"], steps=18),
}
GRIDS = {"sparse": grid("2e-4", "4e-4"), "dense": grid("1e-4", "2e-4", "4e-4")}


def run_regime(
    name: str, regime: Regime, args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Run one regime both ways and give its figures."""
    settings = (*regime.all_settings, *STEP, *args.settings)
    target = args.target or regime.target
    figures: dict[str, Any] = {"target": target, "settings": shown(settings)}
    tuning = Tuning(TUNING_SEEDS[: args.tuning_seeds], GRIDS[name])
    for way in ("same",) if args.same else ("same", "best"):
        arms = arms_of(PRESETS if way == "same" else TUNED, args.arm)
        study = run_study(
            arms,
            range(args.seeds),
            args.out / name / way,
            source="ppo",
            settings=settings,
            target=target,
            tuning=tuning if way == "best" else None,
            jobs=args.jobs,
        )
        write_study(study)
        figures[way] = study_figures(study)
        console.print(show(f"{name}, {way}, target {target:g}", figures[way]))
    return figures


def arms_of(presets: Sequence[str], wanted: Sequence[str] | None) -> list[Arm]:
    """Presets as arms, in their order; only those that are wanted, and `off`."""
    chosen = [name for name in presets if wanted is None or name in {*wanted, "off"}]
    return [Arm(name, (f"preset+={name}",)) for name in chosen]


def study_figures(study: Study) -> dict[str, Any]:
    """Per preset: what it used up, what it reached, and both as ratios to `off`."""
    *presets, off = study.arms
    return {
        **{each.arm.name: {**_arm(each), **_ratios(study, each, off)} for each in presets},
        off.arm.name: _arm(off),
    }


def _arm(result: ArmResult) -> dict[str, Any]:
    runs, tuned = result.runs, result.tuned
    return {
        "settings": shown(result.arm.settings),
        "chosen": [] if tuned is None else list(tuned.best.settings),
        "tried": {}
        if tuned is None
        else {" ".join(t.settings): plain(t.score) for t in tuned.trials},
        "reached": f"{result.summary.reached}/{result.summary.seeds}",
        "collapsed": f"{sum(has_collapsed(run) for run in runs)}/{len(runs)}",
        "generated": [plain(run.rollouts) for run in runs],
        "replay_ratio": [plain(run.replay_ratio) for run in runs],
        "rollouts_to_target": [plain(run.rollouts_to_target.value) for run in runs],
        "seconds_to_target": [plain(run.seconds_to_target.value) for run in runs],
        "final": [plain(run.final) for run in runs],
        "best": [plain(run.best) for run in runs],
        "final_median": figures_of(result.summary.final),
        "replay_ratio_median": figures_of(result.summary.replay_ratio),
        "rollouts_median": figures_of(result.summary.rollouts_to_target),
    }


def _ratios(study: Study, preset: ArmResult, off: ArmResult) -> dict[str, Any]:
    found = compare(preset.runs, off.runs, study.span)
    return {
        "rollouts_ratio": figures_of(found.rollouts.medians),
        "rollouts_ratio_restricted": figures_of(found.rollouts.restricted),
        "seconds_ratio": figures_of(found.seconds.medians),
        "final_difference": figures_of(found.final.estimate),
        "area_difference": figures_of(found.area.estimate),
    }


def has_collapsed(run: Measures) -> bool:
    """Tell whether a run lost most of what it had learnt."""
    if run.diverged:
        return True
    if run.best is None or run.final is None or run.best < LEAST_BEST:
        return False
    return run.final < 0.5 * run.best


def show(title: str, arms: dict[str, Any]) -> Table:
    """One line for each preset, as the seed's table has it."""
    table = Table(
        "preset", "trained / generated", "reached", "rollouts to target", "rollouts: off / it",
        "seconds: off / it", "area", "final success", "collapsed", title=title,
    )  # fmt: skip
    for name, f in arms.items():
        table.add_row(
            name,
            spelt(f["replay_ratio_median"]),
            f["reached"],
            spelt(f["rollouts_median"], ".0f"),
            spelt(f["rollouts_ratio"]) if "rollouts_ratio" in f else "",
            spelt(f["seconds_ratio"]) if "seconds_ratio" in f else "",
            spelt(f["area_difference"], "+.3f") if "area_difference" in f else "",
            spelt(f["final_median"], ".3f"),
            f["collapsed"],
        )
    return table


def main() -> None:
    """Run the regimes, print the tables, write benchmarks/results/ppo_replay.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regime", choices=list(REGIMES), action="append")
    parser.add_argument("--arm", choices=PRESETS, action="append", help="presets; off always")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tuning-seeds", type=int, default=2, choices=(1, 2))
    parser.add_argument("--target", type=float, help="held-out success, instead of the regime's")
    parser.add_argument("--same", action="store_true", help="without tuning")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("compare/ppo_replay"))
    parser.add_argument("settings", nargs="*", help="key=value settings on top, for all arms")
    args = parser.parse_args()
    console, figures = Console(), dict[str, Any]()
    if "sparse" in (args.regime or REGIMES):
        make_rare()
    for name in args.regime or REGIMES:
        figures[name] = run_regime(name, REGIMES[name], args, console)
    if args.arm or args.settings or args.seeds < 5:
        return
    packages = ["torch", "transformers", "numpy"]
    path = write_results("ppo_replay", figures, range(args.seeds), packages)
    console.print(f"written to {path}")


if __name__ == "__main__":
    main()
