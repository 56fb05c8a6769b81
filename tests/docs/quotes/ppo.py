"""docs/ppo.md: what the presets buy."""

from __future__ import annotations

from .spelling import Quoting, Results, estimate, points, ratio


def row(preset: str, found: Results) -> str:
    """A preset beside `off`."""
    trained, gained, area = "", "", ""
    if preset != "off":
        trained = f"{found['replay_ratio_median']['point']:.2f}"
        gained = estimate(found["rollouts_ratio"])
        area = estimate(found["area_difference"], points)
    last = estimate(found["final_median"], lambda share: f"{100 * share:.0f}")
    rollouts = f"{found['rollouts_median']['point']:.0f}"
    cells = (trained, found["reached"], rollouts, gained, area, last, found["collapsed"])
    return f"| `{preset}` | {' | '.join(cells)} |"


def ppo(results: Results) -> list[str]:
    """Both tables and the headline ratio."""
    same, best = (results["figures"]["sparse"][way] for way in ("same", "best"))
    gained = best["standard"]["rollouts_ratio"]
    trained = same["high-efficiency"]["replay_ratio_median"]["point"]
    return [
        *("\n".join(row(*preset) for preset in found.items()) for found in (same, best)),
        f"(ratio {ratio(gained['point'])}, interval from {ratio(gained['low'])})",
        f"every row {trained:.1f} times",
    ]


QUOTES: dict[str, Quoting] = {"ppo_replay": ppo}
