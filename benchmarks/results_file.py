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

RESULTS = Path(__file__).parent / "results"


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median with the smallest and largest value."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def write_results(
    name: str, figures: object, seeds: Sequence[int], packages: Sequence[str]
) -> Path:
    """Write benchmarks/results/NAME.json with figures, seeds, command, versions and commit."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    about = {
        "name": name,
        "command": " ".join(["python", *sys.argv]),
        "commit": commit.stdout.strip(),
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
