"""docs/continual.md: what the methods keep."""

from __future__ import annotations

from .spelling import Quoting, Results

MEASURES = ("average_performance", "learning_accuracy", "forgetting")
NAMES = {
    "sequential": "(`sequential`)",
    "replay-trajectories": "`replay`, trajectories",
    "sft": "(`sft`), learning rate 3e-3",
}


def spell(share: float) -> str:
    """Points; 0 has no decimals."""
    return f"{100 * share:.1f}" if share else "0"


def row(name: str, found: Results) -> str:
    """Means and ranges over the seeds."""
    cells = []
    for measure in MEASURES:
        mean, low, high = (spell(found["measures"][measure][k]) for k in ("mean", "low", "high"))
        cells.append(mean if low == high == "0" else f"{mean} ({low} to {high})")
    plain = f"| with `{name[4:]}`" if name.startswith("sft+") else f"| `{name}`"
    return f"{NAMES.get(name, plain)} | {' | '.join(cells)} |"


def continual(results: Results) -> list[str]:
    """The table and its headline."""
    methods = results["figures"]["methods"]
    mean = {name: 100 * methods["sft"]["measures"][name]["mean"] for name in MEASURES}
    return [
        *(row(name, found) for name, found in methods.items()),
        f"forgets {mean['forgetting']:.0f} points of {mean['learning_accuracy']:.0f}",
    ]


QUOTES: dict[str, Quoting] = {"continual": continual}
