"""What do notes buy? Seed 002's four methods on each desk domain, on the same seeds.

    python benchmarks/notes.py                             everything: hours on two cores
    python benchmarks/notes.py --domain airline            one domain
    python benchmarks/notes.py --seeds 1 run.steps=2 eval.tasks=6    a look; writes no results

baseline never sees a note; ec keeps notes in what is trained, ei takes them out, het does both.
ei-recorded weighs what was taken out by the true importance ratio, as recorded under the note.
Success is that of held-out greedy attempts *without* notes, for all four; success with the notes
that the run has gathered stands beside it. Rollouts are those until success without notes reaches
the target. Every method is compared with the baseline, with intervals over seeds.

The runs lie in --out and are not repeated if they are there; look at one with `recollect notes ls`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import Arm
from recollect.compare.study import Study, run_study, write_study
from recollect.telemetry.reading import read_metrics
from results_file import spread, write_results
from study_figures import figures_of, plain, spelt

METHODS = (
    Arm("ec", ("preset+=ec",)),
    Arm("ei", ("preset+=ei",)),
    Arm("ei-recorded", ("preset+=ei", "notes.ratio=recorded")),
    Arm("het", ("preset+=het",)),
    Arm("baseline", ("preset+=baseline",)),
)
DOMAINS = {"airline": 0.5, "retail": 0.5, "telecom": 0.5}  # and the success to reach
BASE = (
    "checkpoint.every=0",
    "eval.tasks=40",
    "eval.every=4",
    "run.steps=12",
    "replay.modes=[]",
    "notes.top_k=1",
    "notes.max_chars=600",
    "notes.min_overlap=0.3",
)


def run_domain(
    domain: str, target: float, args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Run the four methods on one domain and give their figures."""
    settings = (*BASE, f"environment.name=desk:{domain}", *args.settings)
    study = run_study(
        METHODS,
        range(args.seeds),
        args.out / domain,
        source="demo",
        settings=settings,
        target=target,
        jobs=args.jobs,
        tell=lambda standing: None,
    )
    write_study(study)
    figures = {"target": target, "settings": list(settings), "methods": methods(study)}
    console.print(f"\n[bold]{domain}[/bold]", show({domain: figures}), highlight=False)
    return figures


def methods(study: Study) -> dict[str, Any]:
    """What each method reached, and how that compares with the baseline."""
    found: dict[str, Any] = {}
    for result in study.arms:
        guided = [_with_notes(curve.path) for curve in result.curves]
        found[result.arm.name] = {
            "final": [plain(run.final) for run in result.runs],
            "final_with_notes": [plain(value) for value in guided],
            "reached": f"{result.summary.reached}/{result.summary.seeds}",
            "rollouts_to_target": [plain(r.rollouts_to_target.value) for r in result.runs],
            "gain_in_training": [plain(_gain(curve.path)) for curve in result.curves],
        }
    for compared in study.comparisons:
        found[compared.arm]["against_baseline"] = {
            "final_difference": figures_of(compared.final.estimate),
            "area_difference": figures_of(compared.area.estimate),
            "rollouts_ratio": figures_of(compared.rollouts.medians),
        }
    return found


def _with_notes(run: Path) -> float | None:
    """Success with notes at the last evaluation."""
    return read_metrics(run).evaluations[-1].metrics.get("eval/guided_success")


def _gain(run: Path) -> float | None:
    """Mean over steps of what notes bought within groups."""
    steps = [line.metrics.get("notes/gain") for line in read_metrics(run).steps]
    known = [value for value in steps if value is not None]
    return sum(known) / len(known) if known else None


def show(figures: dict[str, Any]) -> Table:
    """Table of all domains and methods."""
    table = Table("domain", "method", "final", "with notes", "reached", "against baseline")
    for domain, found in figures.items():
        for name, f in found["methods"].items():
            against = f.get("against_baseline")
            table.add_row(
                domain,
                name,
                _median(f["final"]),
                _median(f["final_with_notes"]),
                f["reached"],
                "-" if against is None else spelt(against["final_difference"], "+.3f"),
            )
    return table


def _median(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return "-" if not known else f"{spread(known)['median']:.3f}"


def main() -> None:
    """Run the domains, print the table, write benchmarks/results/notes.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", choices=list(DOMAINS), action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("compare/notes"))
    parser.add_argument("settings", nargs="*", help="key=value settings on top, for all methods")
    args = parser.parse_args()
    console, figures = Console(), dict[str, Any]()
    for domain in args.domain or DOMAINS:
        figures[domain] = run_domain(domain, DOMAINS[domain], args, console)
    console.print(show(figures))
    if args.domain or args.settings or args.seeds < 5:
        return
    path = write_results("notes", figures, range(args.seeds), ["torch", "transformers", "numpy"])
    console.print(f"written to {path}")


if __name__ == "__main__":
    main()
