"""Draw the READMEs' picture from what `make demo` has trained: make picture.

    python scripts/draw_demo.py                 reads compare/demo
    python scripts/draw_demo.py FOLDER          reads another folder of `recollect compare demo`

Writes benchmarks/results/demo.json (the curves, the command, versions, the preset) and, from that
file alone, docs/images/demo.svg.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from recollect.compare.bands import Thread, make_band
from recollect.compare.svg import HEIGHT, WIDTH, line_chart
from recollect.config.presets import preset_text

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "demo.json"
PICTURE = ROOT / "docs" / "images" / "demo.svg"

_NAMES = {"replay": "replay", "twin": "without"}
_STYLE = f"""<style>
rect {{ fill: #ffffff; }}
text {{ font: 12px system-ui, sans-serif; fill: #57606a; }}
.grid {{ stroke: #e6e8eb; }} .axis {{ stroke: #8c959f; }}
.target {{ stroke: #8c959f; stroke-dasharray: 5 4; }}
.mean {{ fill: none; stroke-width: 2.4; stroke-linejoin: round; }}
.area {{ fill-opacity: .15; }}
.mean.c0 {{ stroke: #0072B2; }} .area.c0, .dot.c0, text.c0 {{ fill: #0072B2; }}
.mean.c1 {{ stroke: #D55E00; }} .area.c1, .dot.c1, text.c1 {{ fill: #D55E00; }}
</style><rect width="{WIDTH}" height="{HEIGHT}"/>"""


def collect(folder: Path) -> dict[str, Any]:
    """Take the curves of held-out success out of a comparison's folder."""
    about = json.loads((folder / "compare.json").read_text(encoding="utf-8"))
    curves: dict[str, dict[str, list[list[float]]]] = {}
    with (folder / "compare.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == "eval/success":
                runs = curves.setdefault(row["label"], {})
                point = [float(row["rollouts"]), round(float(row["value"]), 4)]
                runs.setdefault(row["run"], []).append(point)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "name": "demo",
        "command": about["command"],
        "drawn_at": commit.stdout.strip(),
        "seeds": about["seeds"],
        "versions": about["versions"],
        "preset": yaml.safe_load(preset_text("demo")),
        # Success over rollouts only: times would tell what else the machine was doing.
        "figures": {"curves": curves},
    }


def draw(results: dict[str, Any]) -> str:
    """Draw held-out success over generated rollouts, an area from the worst to the best seed."""
    figures = results["figures"]
    bands = []
    for place, (arm, name) in enumerate(_NAMES.items()):
        threads = [
            Thread(seed, *(np.array(values) for values in zip(*points, strict=True)))
            for seed, points in enumerate(figures["curves"][arm].values())
        ]
        band = make_band(name, place, threads, name)
        assert band is not None, f"nothing was measured of {arm}"
        bands.append(band)
    chart = line_chart(bands, x="rollouts generated", y="held-out success", percent=True)
    seeds = len(results["seeds"])
    title = f'<text x="60" y="32">held-out success, mean and range of {seeds} seeds</text>'
    head, _, rest = chart.partition(">")
    size = f'xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
    return head.replace("<svg", f"<svg {size}") + ">" + _STYLE + title + rest + "\n"


def main() -> None:
    """Write the figures and the picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "compare" / "demo"
    results = collect(folder)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(results), encoding="utf-8")


if __name__ == "__main__":
    main()
