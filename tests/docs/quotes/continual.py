"""docs/continual.md: what the methods keep."""

from __future__ import annotations

from .spelling import WORDS, Quoting, Results, claim, setting, table

MEASURES = ("average_performance", "learning_accuracy", "forgetting")
NAMES = {
    "sequential": "**GRPO** (`sequential`)",
    "replay-trajectories": "`replay`, trajectories",
    "sft": "**supervised** (`sft`), learning rate 3e-3",
}


def spell(share: float) -> str:
    """Points; 0 has no decimals."""
    return f"{100 * share:.1f}" if share else "0"


def row(name: str, found: Results, bold: bool) -> str:
    """Means and ranges over the seeds; of what forgets much or little under supervision, bold."""
    cells = []
    for measure in MEASURES:
        mean, low, high = (found["measures"][measure][key] for key in ("mean", "low", "high"))
        marks = "**" if bold and measure == "forgetting" else ""
        span = "" if low == high == 0 else f" ({spell(low)} to {spell(high)})"
        cells.append(f"{marks}{spell(mean)}{marks}{span}")
    label = NAMES.get(name) or (f"with `{name[4:]}`" if name.startswith("sft+") else f"`{name}`")
    return f"| {label} | {' | '.join(cells)} |"


def continual(results: Results) -> list[str]:
    """Everything that the section takes from the file."""
    figures = results["figures"]
    methods = figures["methods"]
    forgotten, learnt = (
        {name: 100 * found["measures"][measure]["mean"] for name, found in methods.items()}
        for measure in ("forgetting", "learning_accuracy")
    )
    third = forgotten["sft"] / 3
    protecting = {n for n in methods if n.startswith("sft+") and forgotten[n] <= third}
    as_good = all(learnt[name] >= learnt["sft"] - 1 for name in protecting)
    lost = learnt["sequential"] - learnt["replay-trajectories"]
    expected = {"replay", "adaptive_replay", "ewc", "online_ewc", "fusion", "progressive"}
    merged = ("progressive", "dynamic_expansion", "fusion", "adaptive_fusion")
    share = setting(figures["arms"]["replay"], "continual.replay.ratio")
    tasks = setting(figures["settings"], "continual.fusion.search_tasks")
    steps = int(setting(figures["settings"], "run.steps"))
    strength = setting(figures["arms"]["sft+ewc"], "continual.ewc.strength")
    return [
        f"in a row, {WORDS[steps]} steps each, {WORDS[len(results['seeds'])]} seeds",
        f"`replay` has `continual.replay.ratio={share}`, `adaptive_fusion` {tasks} search tasks",
        table(row(n, found, n == "sft" or n in protecting) for n, found in methods.items()),
        claim(forgotten["sequential"] < 1, "**GRPO by itself forgets next to nothing here**"),
        f"{claim(all(learnt[n] < learnt['sequential'] for n in merged), 'Columns and merging learn less')}"
        f" in {WORDS[steps]} steps, and stored trajectories as extra updates cost "
        f"{WORDS[round(lost)]} points of learning accuracy.",
        f"**Supervised training at a high rate forgets {forgotten['sft']:.0f} points of "
        f"{learnt['sft']:.0f}.**",
        claim(
            protecting == {f"sft+{name}" for name in expected},
            "Rehearsal, `ewc`, `online_ewc`, `fusion` and `progressive` each cut that to a third or less",
        ),
        claim(as_good, "none of them loses more than a point of learning accuracy."),
        f"(`continual.ewc.strength={strength}`,",
        claim(forgotten["sft+kl_anchor"] > 2 * third, "**`kl_anchor` does not protect here**"),
    ]


QUOTES: dict[str, Quoting] = {"continual": continual}
