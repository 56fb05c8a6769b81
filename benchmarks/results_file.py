"""Where benchmarks put their figures: one JSON file each, with all that is needed to redo them."""

from __future__ import annotations

import json
import platform
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median with the smallest and largest value."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def write_results(
    name: str, figures: object, seeds: Sequence[int], packages: Sequence[str]
) -> Path:
    """Write benchmarks/results/NAME.json with figures, seeds, command, versions and commit."""
    about = {
        "name": name,
        "command": " ".join(["python", *sys.argv]),
        "commit": _commit(),
        "seeds": list(seeds),
        "versions": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{package: version(package) for package in packages},
        },
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return path


def read_results(name: str) -> dict[str, Any]:
    """Give what benchmarks/results/NAME.json holds."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _commit() -> str:
    """Name the commit; "-dirty" where something but results of other benchmarks was changed."""

    def git(*words: str) -> str:
        found = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        return found.stdout.strip()

    changed = git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", f":(exclude){RESULTS}"
    )
    return git("describe", "--always") + ("-dirty" if changed else "")
