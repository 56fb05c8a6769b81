"""What do notes buy? Seed 002's four methods on each desk domain, on the same seeds.

    python benchmarks/notes.py                             everything: hours on two cores
    python benchmarks/notes.py --domain airline            one domain
    python benchmarks/notes.py --bank given                one of the two banks
    python benchmarks/notes.py --seeds 1 run.steps=2 eval.tasks=6    a look; writes no results

baseline never sees a note; ec keeps notes in what is trained, ei takes them out, het does both.
ei-recorded weighs what was taken out by the true importance ratio, as recorded under the note.
Success is that of held-out greedy attempts *without* notes, for all four; success with the notes
that the run has gathered stands beside it. Rollouts are those until success without notes reaches
the target. Every method is compared with the baseline, with intervals over seeds.

Two banks: **own**, the shipped model writes its notes while it learns, from none; and **given**, a
model that is hardly ever right begins with the notes that the shipped one wrote in another run (its
rollouts are not counted), as with a bank that a stronger agent or a person has filled.

The runs lie in --out and are not repeated if they are there; look at one with `recollect notes ls`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recollect.compare.arms import Arm
from recollect.compare.study import Study, run_study, write_study
from recollect.telemetry.reading import read_metrics
from replay_gain import RARE, make_rare
from results_file import spread, write_results
from study_figures import figures_of, plain, shown, spelt

METHODS = (
    Arm("ec", ("preset+=ec",)),
    Arm("ei", ("preset+=ei",)),
    Arm("ei-recorded", ("preset+=ei", "notes.ratio=recorded")),
    Arm("het", ("preset+=het",)),
    Arm("baseline", ("preset+=baseline",)),
)
DOMAINS = ("airline", "retail", "telecom")
TARGETS = {"own": 0.5, "given": 0.3}  # of success without notes
AUTHOR_SEED = 900
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


def settings_of(bank: str, domain: str, out: Path) -> tuple[tuple[str, ...], Sequence[Arm]]:
    """What all methods have in common with this bank, and the methods."""
    settings = (*BASE, f"environment.name=desk:{domain}")
    if bank == "own":
        return settings, METHODS
    make_rare()
    filled = f"notes.start_from={filled_bank(domain, out)}"
    arms = [arm if arm.name == "baseline" else arm.tuned([filled]) for arm in METHODS]
    return (*settings, f"model.name={RARE}", "run.steps=16"), arms


def filled_bank(domain: str, out: Path) -> Path:
    """Train the shipped model once as ei does, and give the run in which its notes lie."""
    run = out / "author" / domain
    if not run.is_dir():
        place = (f"run.folder={run.parent}", f"run.name={domain}", f"run.seed={AUTHOR_SEED}")
        settings = [*BASE, f"environment.name=desk:{domain}", "preset+=ei", *place]
        subprocess.run([sys.executable, "-m", "recollect", "train", "demo", *settings], check=True)
    return run.absolute()


def run_domain(
    bank: str, domain: str, args: argparse.Namespace, console: Console
) -> dict[str, Any]:
    """Run the methods on one domain and give their figures."""
    out: Path = args.out / bank
    settings, arms = settings_of(bank, domain, out)
    settings = (*settings, *args.settings)
    study = run_study(
        arms,
        range(args.seeds),
        out / domain,
        source="demo",
        settings=settings,
        target=TARGETS[bank],
        jobs=args.jobs,
    )
    write_study(study)
    figures = {
        "target": TARGETS[bank],
        "settings": shown(settings),
        "methods": methods(study),
    }
    console.print(f"\n[bold]{bank}[/bold]", show({bank: {domain: figures}}), highlight=False)
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
            "area": [plain(run.area) for run in result.runs],
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
    """Table of all banks, domains and methods."""
    table = Table(
        "bank", "domain", "method", "area", "final", "with notes", "reached", "area: it - baseline",
        "rollouts: baseline / it",
    )  # fmt: skip
    rows = (
        (bank, domain, name, f)
        for bank, domains in figures.items()
        for domain, found in domains.items()
        for name, f in found["methods"].items()
    )
    for bank, domain, name, f in rows:
        against = f.get("against_baseline")
        table.add_row(
            bank,
            domain,
            name,
            _median(f["area"]),
            _median(f["final"]),
            _median(f["final_with_notes"]),
            f["reached"],
            "-" if against is None else spelt(against["area_difference"], "+.3f"),
            "-" if against is None else spelt(against["rollouts_ratio"]),
        )
    return table


def _median(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return "-" if not known else f"{spread(known)['median']:.3f}"


def main() -> None:
    """Run the domains, print the table, write benchmarks/results/notes.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bank", choices=list(TARGETS), action="append")
    parser.add_argument("--domain", choices=DOMAINS, action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("compare/notes"))
    parser.add_argument("settings", nargs="*", help="key=value settings on top, for all methods")
    args = parser.parse_args()
    console, figures = Console(), dict[str, Any]()
    for bank in args.bank or TARGETS:
        figures[bank] = {
            domain: run_domain(bank, domain, args, console) for domain in args.domain or DOMAINS
        }
    console.print(show(figures))
    if args.bank or args.domain or args.settings or args.seeds < 5:
        return
    path = write_results("notes", figures, range(args.seeds), ["torch", "transformers", "numpy"])
    console.print(f"written to {path}")


if __name__ == "__main__":
    main()
