"""docs/tau2.md: floors and speed."""

from __future__ import annotations

from .spelling import Quoting, Results


def tau2(results: Results) -> list[str]:
    """The two tables, and the tasks outside of base."""
    floors, speeds = [], []
    for name, found in results["figures"].items():
        label = name.replace(" ", ", ")
        for split, floor in found["floors"].items():
            cells = [f"{100 * floor[agent]:.1f}%" for agent in ("stop", "transfer", "random")]
            floors.append(f"| {label} | {split} | {found['tasks'][split]} | {' | '.join(cells)} |")
        phases = ("reset_ms", "step_ms", "evaluate_ms")
        times = [f"{found[phase]['wall_median']:.2f}" for phase in phases]
        speeds.append(f"| {label} | {' | '.join(times)} |")
    telecom = results["figures"]["telecom script"]["tasks"]
    return [
        "\n".join(floors),
        "\n".join(speeds),
        f"released tasks outside of base ({telecom['extra']:,})",
        f"telecom's {sum(telecom.values()):,} tasks were generated",
    ]


QUOTES: dict[str, Quoting] = {"tau2": tau2}
