"""The promises of the README, tried in numbers: kills, flipped bytes, resumes, estimators.

    python benchmarks/promises.py                          minutes on two cores
    python benchmarks/promises.py --kills 5000 --flips 50000 --resumes 50

The machinery is that of `recollect doctor --prove` (src/recollect/proof), which `make test` and
`make faults` use too. A promise that does not hold ends this with an error and the seed that makes
it happen again.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from recollect.proof.drawing import COUNT, ORDERS, PRIORITIES, enumerate_draws
from recollect.proof.estimators import LEVELS, PULLS, enumerate_corrections
from recollect.proof.flips import flip_anywhere, flip_frames, make_frames, whole_store
from recollect.proof.killing import kill_many
from recollect.proof.resuming import SETTINGS, resume_exactly
from recollect.store.sqlite.journal import choose_journal
from results_file import write_results

SEEDS = 3  # of the estimators
STARTS, PICKS = 100, 30  # of the draws


def kills(folder: Path, journal: str, number: int, seed: int) -> dict[str, object]:
    """Kill a committing writer again and again; whatever was acknowledged must be read back."""
    tally = kill_many(folder, journal, number, seed)
    return {
        "tried": tally.kills,
        "moments": dict(tally.moments.most_common()),
        "acknowledged_rows_read_back": tally.rows_checked,
        "lost": 0,  # kill_many raises at the first one
    }


def flips(folder: Path, journal: str, number: int, seed: int) -> dict[str, object]:
    """Flip bytes in records, and a tenth as many anywhere in the file."""
    inside = flip_frames(make_frames(folder / "frames.db", tokens=200, rows=20), number, seed)
    elsewhere = flip_anywhere(whole_store(folder, journal), number // 10, seed)
    return {"in_records": inside, "missed": 0, "anywhere": dict(elsewhere.most_common())}


def resumes(folder: Path, number: int) -> dict[str, int]:
    """Kill runs at several steps and resume them; each must end as an undisturbed one does."""
    for seed in range(number):
        place = folder / f"resume-{seed}"
        place.mkdir()
        resume_exactly(place, (*SETTINGS, f"run.seed={seed}"), lines=1 + seed % 3)
    return {"tried": number, "identical": number}


def draws(store: Path) -> dict[str, Any]:
    """Draws from a store, in every order: how far what is drawn is from what is told."""
    return {
        "drawn": COUNT,
        "rows": len(PRIORITIES),
        "orders": len(ORDERS),
        "starts": STARTS,
        "picks": PICKS,
        "largest_deviation": enumerate_draws(store, STARTS, PICKS),
    }


def main() -> None:
    """Try everything and write benchmarks/results/promises.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--flips", type=int, default=5000)
    parser.add_argument("--resumes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recollect-promises-", dir=".") as name:
        folder = Path(name).absolute()
        journal = choose_journal(sqlite3.sqlite_version_info, folder)
        figures = {
            "journal": journal,
            "kills": kills(folder, journal, args.kills, args.seed),
            "flips": flips(folder, journal, args.flips, args.seed),
            "resumes": resumes(folder, args.resumes),
            "draws": draws(folder / "drawn.db"),
            "estimators": {
                "cases": len(PULLS) * len(LEVELS) * SEEDS,
                "largest_difference": enumerate_corrections(SEEDS),
            },
        }
    path = write_results("promises", figures, [args.seed], ["torch", "transformers", "numpy"])
    Console().print(figures)
    Console().print(f"written to {path}")


if __name__ == "__main__":
    main()
