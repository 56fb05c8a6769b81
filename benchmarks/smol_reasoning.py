"""A real model on tasks nobody here wrote: SmolLM2-135M on reasoning-gym, beside its twin.

    recollect model fetch smol                         once
    python benchmarks/smol_reasoning.py                everything, about an hour of one core
    python benchmarks/smol_reasoning.py --part lora --seeds 1      a look; writes no results

examples/smol_reasoning.yaml as it stands, with adapters and with all weights, each against the same
settings with replay off, on the same seeds. Settings were chosen on the dev split; success here is
greedy on tasks of the test split, the same ones every time. Processor seconds are those of the
training steps, without evaluations: the clock says more on a machine that others use too.

The runs lie in --out and are not repeated if they are there; each can be looked at with
`recollect plot`, `recollect pool` and `recollect replay explain`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import REPLAY, TWIN
from recollect.compare.measures import Measures
from recollect.compare.study import ArmResult, Study, run_study, write_study
from recollect.compare.verdict import verdict
from recollect.config import load_config
from recollect.envs.floors import floors
from recollect.envs.registry import load_environment
from recollect.telemetry.reading import EvaluationLine, read_metrics
from results_file import spread, write_results
from study_figures import figures_of, plain

EXAMPLE = Path(__file__).parent.parent / "examples" / "smol_reasoning.yaml"
HELD_OUT = ("eval.split=test",)
TARGET = 0.5


@dataclass(frozen=True)
class Part:
    """Settings on top of the example, and on how many seeds."""

    settings: tuple[str, ...]
    seeds: int


PARTS = {
    "lora": Part((), 3),
    "full": Part(("model.lora.rank=0", "train.learning_rate=2e-5"), 2),
}


def run_part(name: str, seeds: int, out: Path, console: Console) -> dict[str, Any]:
    """Train what is not there yet, and give the figures."""
    part = PARTS[name]
    study = run_study(
        [REPLAY, TWIN],
        range(min(seeds, part.seeds)),
        out / name,
        source=EXAMPLE,
        settings=(*HELD_OUT, *part.settings),
        target=TARGET,
    )
    write_study(study)
    console.print(f"\n[bold]{name}[/bold]\n{verdict(study)}", highlight=False)
    return study_figures(study)


def study_figures(study: Study) -> dict[str, Any]:
    """Pick what the docs quote: every run, both arms, and the differences by seed."""
    found, (replay, twin) = study.comparison, study.arms
    pairs = list(zip(replay.runs, twin.runs, strict=True))
    return {
        "settings": list(study.settings),
        "seeds": list(study.seeds),
        "target": study.target,
        "arms": {result.arm.name: _arm(result) for result in study.arms},
        "gain_by_seed": [round(_points(a.final) - _points(b.final), 1) for a, b in pairs],
        "final_difference": figures_of(found.final.estimate),
        "area_difference": figures_of(found.area.estimate),
        "rollouts_ratio": figures_of(found.rollouts.medians),
    }


def _arm(result: ArmResult) -> dict[str, Any]:
    runs = [_run(measures) for measures in result.runs]
    return {
        "settings": list(result.arm.settings),
        "before": spread([run["before"] for run in runs]),
        "after": spread([run["after"] for run in runs]),
        "processor_s": spread([run["processor_s"] for run in runs]),
        "runs": runs,
    }


def _run(measures: Measures) -> dict[str, Any]:
    """Give one run: success in percent, rollouts generated, what training took."""
    metrics = read_metrics(measures.path)
    steps = [line.metrics for line in metrics.steps]
    before, after = metrics.evaluations[0], metrics.evaluations[-1]
    return {
        "seed": measures.seed,
        "before": _points(measures.first),
        "after": _points(measures.final),
        "success_on_the_way": [line.metrics["eval/success"] for line in metrics.evaluations],
        "by_dataset": {"before": _by_dataset(before), "after": _by_dataset(after)},
        "area": plain(measures.area),
        "tasks": {score.domain: score.n for score in before.scores},
        "floor": before.metrics["eval/floor"],
        "rollouts": measures.rollouts,
        "rollouts_to_target": plain(measures.rollouts_to_target.value),
        "replay_ratio": plain(measures.replay_ratio),
        "processor_s": sum(line["time/processor"] for line in steps),
        "clock_s": measures.seconds,
        "evaluation_s": sum(line.seconds or 0.0 for line in metrics.evaluations),
        "peak_memory": steps[-1]["perf/peak_memory"],
        "truncated": [steps[0]["rollout/truncated"], steps[-1]["rollout/truncated"]],
    }


def _by_dataset(line: EvaluationLine) -> dict[str, float]:
    return {score.domain: _points(score.success) for score in line.scores}


def _points(share: float | None) -> float:
    return float("nan") if share is None else round(100 * share, 1)


def commonest_answer(tasks: int) -> dict[str, float]:
    """Give what always the same answer earns on the held-out tasks, in percent by dataset."""
    config = load_config(EXAMPLE, HELD_OUT).config
    world = load_environment(config.environment.name, **config.environment.options)
    found = floors(world, config.eval.split, most=tasks)
    return {floor.domain: _points(floor.success) for floor in found if floor.agent == "commonest"}


def show(figures: dict[str, Any]) -> Table:
    """Table of all runs."""
    table = Table("weights", "arm", "seed", "before %", "after %", "area", "rollouts",
                  "processor s", "rows trained / generated")  # fmt: skip
    for name, part in figures.items():
        for arm, found in part["arms"].items():
            for run in found["runs"]:
                table.add_row(
                    *(name, arm, str(run["seed"]), f"{run['before']:.1f}", f"{run['after']:.1f}"),
                    *(f"{run['area']:.3f}", f"{run['rollouts']:.0f}", f"{run['processor_s']:.0f}"),
                    "-" if run["replay_ratio"] is None else f"{run['replay_ratio']:.2f}",
                )
    return table


def main() -> None:
    """Run both parts, print the table, write benchmarks/results/smol_reasoning.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), action="append")
    parser.add_argument("--seeds", type=int, default=9, help="at most; fewer write no results")
    parser.add_argument("--out", type=Path, default=Path("compare/smol_reasoning"))
    args = parser.parse_args()
    console = Console()
    names = args.part or list(PARTS)
    figures: dict[str, Any] = {
        name: run_part(name, args.seeds, args.out, console) for name in names
    }
    console.print(show(figures))
    most = max(part.seeds for part in PARTS.values())
    if args.part or args.seeds < most:
        return
    tasks = figures["lora"]["arms"][REPLAY.name]["runs"][0]["tasks"]
    figures["commonest_answer"] = commonest_answer(max(tasks.values()))
    seeds = range(most)
    packages = ["torch", "transformers", "peft", "reasoning-gym", "numpy"]
    path = write_results("smol_reasoning", figures, seeds, packages)
    console.print(f"written to {path}")


if __name__ == "__main__":
    main()
