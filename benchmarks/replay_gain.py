"""What does replay buy? Replay against its twin in four regimes, as set and each at its best.

    python benchmarks/replay_gain.py --jobs 2            everything: hours on two quiet cores
    python benchmarks/replay_gain.py --regime sparse     one regime; each has a file of its own
    python benchmarks/replay_gain.py --seeds 16          more seeds: what is there is not repeated
    python benchmarks/replay_gain.py --seeds 2 --same    a look: two seeds, without tuning

A step generates four groups of eight rows, as in the demo; replay adds updates on stored rows.
Every regime is compared twice on the same seeds: **same**, replay against its **twin**, the same
settings with replay off; and **best**, each arm with its own best setting, found with the same
budget on other seeds: learning rates by values of a knob for how much a row is used, which is
epochs over fresh rows for runs without replay, updates on stored rows for replay. There both sides
have a second, **narrow** arm, which generates one group a step in four times as many steps; the
strongest arm of a side is the one with the larger area on the tuning seeds, in the regimes that
take another one's settings on their own. Where success is rare replay has none: in a look at seeds
2000 and 2001, at two learning rates and with one, two and four updates, it learnt less in narrow
steps than in wide ones. Only "best" says what replay is worth: against an untuned twin a gain is
easily had by a higher rate.
**untuned** is replay as set against the strongest run without it, what a newcomer gets. **alone**:
seeds that one side brings to the target with its best settings, wide or narrow, and the other side
does not, are tried with every setting of the other's grids. Rollouts and seconds are those until
held-out greedy success reaches the regime's target, and levels on the way; seconds are of training
steps, without evaluations.

Grids lie around the best setting of earlier rounds, and replay's settings were chosen on seeds 2000
to 2005, which take no part here.

The dear regime has the tasks of the dense one and takes its settings; its curves over rollouts are
those, so only "best" is run. The inherited regime is the sparse one, with its settings, but replay
begins with the rows of an earlier run: 672 rollouts of the shipped model that somebody else has
paid for. A twin has no use for them. By themselves, with --regime, these two take the settings that
the results file of the other one names.

The runs lie in --out and are not repeated if they are there; each can be looked at with `recollect
plot`, `recollect pool` and `recollect replay explain`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import REPLAY, TWIN, Arm
from recollect.compare.comparison import Comparison, compare
from recollect.compare.measures import measure
from recollect.compare.study import ArmResult, Study, run_study, write_study
from recollect.compare.tuning import Axis, Tuning
from recollect.compare.verdict import verdict
from results_file import read_results, write_results
from study_figures import figures_of, plain, shown, spelt

SLOW = Path(__file__).parent / "slow_desk.py"
MAKE_TINY = Path(__file__).parent.parent / "scripts" / "make_tiny.py"
RARE = Path("compare/tiny-rare").absolute()  # made when it is missing, always the same
EARLIER = Path("compare/earlier-run").absolute()  # likewise
TUNING_SEEDS = (1000, 1001, 1002)
EARLIER_SEED = 900
NARROW_REPLAY, NARROW_TWIN = "narrow-replay", "narrow-twin"
REPLAYING = (REPLAY.name, NARROW_REPLAY)  # the arms of that side; the others do without
RATE = "train.learning_rate"
LOWEST, LOW = ("5e-5", "1e-4"), ("1e-4", "2e-4")
MIDDLE, HIGH = ("1e-4", "2e-4", "4e-4"), ("2e-4", "4e-4", "8e-4")


@dataclass(frozen=True)
class Knobs:
    """What an arm may choose from: its learning rates, and how often it uses a row."""

    rates: tuple[str, ...]
    uses: tuple[str, ...]

    def axes(self, arm: str) -> tuple[Axis, Axis]:
        """Spell them as the two axes of the arm's grid."""
        use = "replay.buffer_updates" if arm in REPLAYING else "train.epochs"
        return Axis(RATE, self.rates, arm), Axis(use, self.uses, arm)


@dataclass(frozen=True)
class Regime:
    """Settings on top of the demo preset, and the held-out success to reach."""

    settings: tuple[str, ...]
    steps: int
    target: float
    knobs: Mapping[str, Knobs] = field(default_factory=dict)  # of each arm
    tuning_seeds: int = 0  # how many of them
    at_once: int = 1  # runs that share a core, because they sleep
    replay: tuple[str, ...] = ()  # settings of the arms that replay, and of no other
    tuned_in: str = ""  # the regime with the same tasks in which the arms found their best settings

    @property
    def all_settings(self) -> tuple[str, ...]:
        """Those of the regime and those of all regimes; what replay does is not among them."""
        return (*BASE, f"run.steps={self.steps}", *self.settings)

    @property
    def same(self) -> list[Arm]:
        """Replay and its twin."""
        return [REPLAY.tuned(self.replay), TWIN]

    @property
    def all_arms(self) -> list[Arm]:
        """Those two, and narrow ones: more and smaller steps, evaluated after as many rollouts."""
        steps = (f"run.steps={self.steps * GROUPS}", f"eval.every={GROUPS}")
        narrow = ("rollout.tasks_per_step=1", *steps)
        replay, twin = self.same
        narrow_arms = (Arm(NARROW_REPLAY, replay.settings), Arm(NARROW_TWIN, twin.settings))
        arms = [replay, twin, *(arm.tuned(narrow) for arm in narrow_arms)]
        tuned = REGIMES[self.tuned_in].knobs if self.tuned_in else self.knobs
        return [arm for arm in arms if arm.name in tuned]

    @property
    def grid(self) -> tuple[Axis, ...]:
        """As many settings for each arm."""
        return tuple(axis for arm, knobs in self.knobs.items() for axis in knobs.axes(arm))


GROUPS = 4  # a step
BASE = (
    "checkpoint.every=0",
    "eval.tasks=60",
    "eval.every=1",  # so 32 rollouts: the grain of rollouts-to-target
    f"rollout.tasks_per_step={GROUPS}",
)
BUFFER = (
    "replay.modes=[buffer]",
    "replay.buffer_updates=8",
    "replay.buffer_rows=32",
    "pool.max_age=200",
    "pool.max_uses=16",
)
REGIMES = {
    # A start that is hardly ever right: nearly all groups are dead.
    "sparse": Regime(
        (f"model.name={RARE}",),
        24,
        0.4,
        {
            REPLAY.name: Knobs(MIDDLE, ("4", "8", "16")),
            TWIN.name: Knobs(MIDDLE, ("1", "4", "8")),
            NARROW_TWIN: Knobs(HIGH, ("1", "4", "8")),
        },
        tuning_seeds=3,
    ),
    # The same, with the rows of an earlier run in the pool.
    "inherited": Regime(
        (f"model.name={RARE}",),
        16,
        0.4,
        replay=(f"pool.start_from={EARLIER}", "pool.max_age=none"),
        tuned_in="sparse",
    ),
    # The same tasks from the shipped model: a fifth of the first rows succeed.
    "dense": Regime(
        (),
        18,
        0.5,
        {
            REPLAY.name: Knobs(LOW, ("4", "8")),
            TWIN.name: Knobs(LOW, ("4", "8")),
            NARROW_REPLAY: Knobs(LOWEST, ("2", "4")),
            NARROW_TWIN: Knobs(LOWEST, ("4", "16")),
        },
        tuning_seeds=3,
    ),
    # Tools that take their time: nearly all seconds go into rollouts.
    "dear": Regime((f"environment.name={SLOW}:SlowDesk",), 10, 0.5, at_once=9, tuned_in="dense"),
}


def make_rare() -> None:
    """Make the start of the sparse regime where it is missing."""
    if not RARE.is_dir():
        subprocess.run([sys.executable, str(MAKE_TINY), "--rare", str(RARE)], check=True)


def make_earlier() -> None:
    """Train the shipped model without replay where that run is missing: the inherited pool."""
    if not EARLIER.is_dir():
        place = (f"run.folder={EARLIER.parent}", f"run.name={EARLIER.name}")
        settings = ("run.steps=21", f"run.seed={EARLIER_SEED}", "checkpoint.every=0", *place)
        command = (sys.executable, "-m", "recollect", "train", "demo", "replay.modes=[]", *settings)
        subprocess.run(command, check=True)


def chosen_in(regime: str, found: dict[str, Any]) -> dict[str, list[str]]:
    """What each arm chose in a regime: in this run, or in the one that its results file is of."""
    figures = found.get(regime) or read_results(f"replay_gain_{regime}")["figures"]
    return {name: arm["chosen"] for name, arm in figures["best"]["arms"].items()}


def run_regime(
    name: str, found: dict[str, Any], args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Run one regime both ways and give its figures; `found` has those of earlier regimes."""
    regime = REGIMES[name]
    settings = (*regime.all_settings, *BUFFER, *args.settings)
    figures: dict[str, Any] = {"target": regime.target, "settings": shown(settings)}
    studies = dict[str, Study]()
    ways = ("same",) if args.same else ("best",) if regime.tuned_in else ("same", "best")
    for way in ways:
        arms, tuning = regime.all_arms if way == "best" else regime.same, None
        if way == "best" and regime.tuned_in:
            chosen = chosen_in(regime.tuned_in, found)
            arms = [arm.tuned(chosen[arm.name]) for arm in arms]
        elif way == "best":
            tuning = Tuning(TUNING_SEEDS[: regime.tuning_seeds], regime.grid)
        study = run_study(
            arms,
            range(args.seeds),
            args.out / name / way,
            source="demo",
            settings=settings,
            target=regime.target,
            tuning=tuning,
            jobs=args.jobs * regime.at_once,
        )
        write_study(study)
        console.print(f"\n[bold]{name}, {way}[/bold]\n{verdict(study)}", highlight=False)
        figures[way], studies[way] = study_figures(study), study
    if len(studies) == 2:
        figures["untuned"] = untuned(studies["same"], studies["best"])
        figures["alone"] = alone(studies["best"], args.out / name, args.jobs * regime.at_once)
    return figures


def untuned(same: Study, best: Study) -> dict[str, Any]:
    """Replay as it is set, against the strongest run without it: what a newcomer gets."""
    replay, strongest = same.arms[0], _strongest(_sides(best)[1])
    found = compare(replay.runs, strongest.runs, best.span)
    return {"against": strongest.arm.name, **_ratios(found)}


def alone(best: Study, folder: Path, jobs: int) -> dict[str, Any]:
    """Seeds that only one side brought to the target, and what of the other's grids does there.

    That the best settings of a side missed a seed does not say that every setting does.
    """

    def there(results: Sequence[ArmResult], place: int) -> bool:
        return any(result.runs[place].rollouts_to_target.value is not None for result in results)

    replays, twins = _sides(best)
    found = {}
    for winner, ours, others in (("replay", replays, twins), ("twins", twins, replays)):
        places = [n for n in range(len(best.seeds)) if there(ours, n) and not there(others, n)]
        trials = [
            (result.arm, trial.settings)
            for result in others
            for trial in (result.tuned.trials if result.tuned else ())
        ]
        arms = [
            Arm(f"{arm.name}-{number}", (*arm.settings, *settings))
            for number, (arm, settings) in enumerate(trials)
        ]
        seeds = [best.seeds[n] for n in places]
        solved: dict[str, list[str]] = {str(seed): [] for seed in seeds}
        if seeds:
            tried = run_study(
                arms, seeds, folder / f"alone-{winner}", source="demo",
                settings=best.settings, target=best.target, jobs=jobs,
            )  # fmt: skip
            for place, seed in enumerate(seeds):
                solved[str(seed)] = [
                    " ".join((arm.name, *settings))
                    for (arm, settings), result in zip(trials, tried.arms, strict=True)
                    if there([result], place)
                ]
        found[winner] = {"settings_tried": len(arms), "solved_by": solved}
    return found


def study_figures(study: Study) -> dict[str, Any]:
    """Pick what the docs quote: every arm with replay against every one without it."""
    replays, twins = _sides(study)
    pairs = [
        {
            "replay": replay.arm.name,
            "twin": twin.arm.name,
            **_ratios(compare(replay.runs, twin.runs, study.span)),
            "on_the_way": [
                _ratio_to(level, study, replay, twin) for level in _levels(study.target)
            ],
        }
        for replay in replays
        for twin in twins
    ]
    return {
        "strongest": {
            "replay": _strongest(replays).arm.name,
            "twin": _strongest(twins).arm.name,
        },
        "pairs": pairs,
        "arms": {result.arm.name: _arm(result) for result in study.arms},
    }


def _sides(study: Study) -> tuple[list[ArmResult], list[ArmResult]]:
    """Divide the arms: those that replay, and those that do not."""
    replays = [result for result in study.arms if result.arm.name in REPLAYING]
    return replays, [result for result in study.arms if result not in replays]


def _strongest(results: Sequence[ArmResult]) -> ArmResult:
    return max(results, key=_strength)


def _levels(target: float) -> list[float]:
    """Successes on the way to the target: no single level decides, least of all a lucky one."""
    return [round(target - down, 2) for down in (0.2, 0.1, 0.0)]


def _ratio_to(level: float, study: Study, replay: ArmResult, twin: ArmResult) -> dict[str, Any]:
    """Rollouts and seconds to a level, twin / replay."""
    found = compare(
        [measure(curve, level, study.span) for curve in replay.curves],
        [measure(curve, level, study.span) for curve in twin.curves],
        study.span,
    )
    return {
        "success": level,
        "rollouts_ratio": figures_of(found.rollouts.medians),
        "seconds_ratio": figures_of(found.seconds.medians),
    }


def _strength(result: ArmResult) -> float:
    """Area on the tuning seeds; without tuning, on the seeds themselves."""
    if result.tuned is not None:
        return result.tuned.best.score or 0.0
    return sum(run.area or 0.0 for run in result.runs) / len(result.runs)


def _ratios(found: Comparison) -> dict[str, Any]:
    return {
        "rollouts_ratio": figures_of(found.rollouts.medians),
        "rollouts_ratio_restricted": figures_of(found.rollouts.restricted),
        "seconds_ratio": figures_of(found.seconds.medians),
        "seconds_ratio_restricted": figures_of(found.seconds.restricted),
        "final_difference": figures_of(found.final.estimate),
        "area_difference": figures_of(found.area.estimate),
    }


def _arm(result: ArmResult) -> dict[str, Any]:
    tuned = result.tuned
    trials = () if tuned is None else tuned.trials
    return {
        "settings": shown(result.arm.settings),
        "chosen": [] if tuned is None else list(tuned.best.settings),
        "reached": f"{result.summary.reached}/{result.summary.seeds}",
        "rollouts_to_target": [plain(run.rollouts_to_target.value) for run in result.runs],
        "seconds_to_target": [plain(run.seconds_to_target.value) for run in result.runs],
        "final": [plain(run.final) for run in result.runs],
        "area": [plain(run.area) for run in result.runs],
        "replay_ratio": [plain(run.replay_ratio) for run in result.runs],
        "tried": {" ".join(trial.settings): plain(trial.score) for trial in trials},
    }


def show(figures: dict[str, Any]) -> Table:
    """Table of all regimes: every pair of arms, to every level."""
    table = Table("regime", "how", "replay", "twin", "to", "rollouts: twin / replay",
                  "seconds: twin / replay", "area", "final")  # fmt: skip
    rows = (
        (name, way, found["strongest"], pair)
        for name, regime in figures.items()
        for way in ("same", "best")
        if (found := regime.get(way))
        for pair in found["pairs"]
    )
    for name, way, strongest, f in rows:
        arms = (_marked(f[side], strongest[side]) for side in ("replay", "twin"))
        start = (name, way, *arms)
        for level in f["on_the_way"]:
            first = level is f["on_the_way"][0]
            table.add_row(
                *(start if first else ("", "", "", "")),
                f"{level['success']:.0%}",
                spelt(level["rollouts_ratio"]),
                spelt(level["seconds_ratio"]),
                spelt(f["area_difference"], "+.3f") if first else "",
                spelt(f["final_difference"], "+.3f") if first else "",
            )
    for name, regime in figures.items():
        if f := regime.get("untuned"):
            ratios = (spelt(f["rollouts_ratio"]), spelt(f["seconds_ratio"]))
            changes = (spelt(f["area_difference"], "+.3f"), spelt(f["final_difference"], "+.3f"))
            against = f"{f['against']} at its best"
            level = f"{regime['target']:.0%}"
            table.add_row(name, "untuned", "as set", against, level, *ratios, *changes)
    return table


def _marked(arm: str, strongest: str) -> str:
    return f"{arm} (strongest)" if arm == strongest else arm


def main() -> None:
    """Run the regimes, print the table, write benchmarks/results/replay_gain_REGIME.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regime", choices=list(REGIMES), action="append")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--same", action="store_true", help="without tuning; writes no results")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("compare/replay_gain"))
    parser.add_argument("settings", nargs="*", help="key=value settings on top, for all arms")
    args = parser.parse_args()
    console, figures = Console(), dict[str, Any]()
    make_rare()
    make_earlier()
    kept = not (args.same or args.seeds < 5 or args.settings)
    for name in args.regime or REGIMES:
        figures[name] = run_regime(name, figures, args, console)
        if kept:
            packages = ["torch", "transformers", "numpy"]
            path = write_results(f"replay_gain_{name}", figures[name], range(args.seeds), packages)
            console.print(f"written to {path}")
    console.print(show(figures))


if __name__ == "__main__":
    main()
