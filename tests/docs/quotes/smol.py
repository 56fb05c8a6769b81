"""docs/results.md: a real model."""

from __future__ import annotations

from .spelling import WORDS, Quoting, Results, claim, table

LABELS = {"lora": "LoRA, rank 16", "full": "all weights"}


def span(values: list[float], how: str = ".0f") -> str:
    """From the smallest to the largest."""
    return f"{min(values):{how}} to {max(values):{how}}"


def rows(label: str, found: Results) -> list[str]:
    """The runs of one kind of weights, seed by seed."""
    pairs = zip(*(found["arms"][arm]["runs"] for arm in ("replay", "twin")), strict=True)
    lines = []
    for number, (replay, twin) in enumerate(pairs):
        gain = replay["after"] - twin["after"]
        lines.append(
            f"| {'' if number else label + ' '}| {replay['seed']} | {replay['before']} % | "
            f"{replay['after']} % | {twin['after']} % | {f'{gain:+.1f}' if gain else '0.0'} | "
            f"{replay['processor_s']:.0f} | {twin['processor_s']:.0f} |"
        )
    return lines


def memory(found: Results) -> str:
    """The most memory that a run of these weights took."""
    peaks = [run["peak_memory"] for arm in found["arms"].values() for run in arm["runs"]]
    return f"{max(peaks) / 2**30:.1f} GiB"


def smol(results: Results) -> list[str]:
    """Everything that the page takes from the file."""
    figures = results["figures"]
    weights = [figures[kind] for kind in LABELS]
    runs = [run for found in weights for arm in found["arms"].values() for run in arm["runs"]]
    first = runs[0]
    minutes = [WORDS[round(run(r["processor_s"] for r in runs) / 60)] for run in (min, max)]
    pairs = [
        (replay, twin)
        for found in weights
        for replay, twin in zip(*(found["arms"][arm]["runs"] for arm in ("replay", "twin")),
                                strict=True)
    ]  # fmt: skip
    after = {name: [run["by_dataset"]["after"][name] for run in runs] for name in first["tasks"]}
    before, floor = first["by_dataset"]["before"], figures["commonest_answer"]
    stuck = [value for value in after["gcd"] if value == floor["gcd"]]
    others = [value for value in after["gcd"] if value != floor["gcd"]]
    cut = [[100 * run["truncated"][end] for run in runs] for end in (0, 1)]
    rollouts = f"{first['rollouts']:.0f}"
    lora, full = ([replay["after"] - twin["after"] for replay, twin in pairs if replay in
                   found["arms"]["replay"]["runs"]] for found in weights)  # fmt: skip
    slower = [replay["processor_s"] / twin["processor_s"] for replay, twin in pairs]
    tasks = sum(first["tasks"].values())
    return [
        f"{rollouts} rollouts in all",
        f"success is greedy, on {tasks} tasks of the test split.",
        table(row for kind, label in LABELS.items() for row in rows(label, figures[kind])),
        f"**It learns**: {span([run['after'] - run['before'] for run in runs])} points in {rollouts} "
        f"rollouts and {minutes[0]} to {minutes[1]} minutes of one core, at most {memory(weights[0])} of "
        f"memory with adapters and {memory(weights[1])} with all weights.",
        claim(min(lora) > 0, f"With adapters it ended higher on all {WORDS[len(lora)]} seeds"),
        claim(sorted(gain > 0 for gain in full) == [False, False] and max(full) == 0 > min(full),
              "with all weights as high on one and lower on the other."),
        f"With {tasks} tasks one success rate is uncertain by about {100 * (0.25 / tasks) ** 0.5:.0f} "
        "points",
        f"It took {span(slower, '.1f')} times the processor time.",
        f"At the first step {span(cut[0])} % of the attempts were cut off at 20 tokens, at the last one "
        f"at most {max(cut[1]):.0f} %. Sums rose from {before['chain_sum']:.0f} % to "
        f"{span(after['chain_sum'])} %, products from {before['products']:.0f} % to "
        f"{span(after['products'])} %.",
        f"In {WORDS[len(stuck)]} of {WORDS[len(runs)]} runs success there ended at exactly "
        f"{floor['gcd']} %, which is what \"1\" earns. The others ended at {span(others, '.1f')} %.",
        f"commonest answer earns {floor['gcd']} % on divisors, {floor['products']} % on products, "
        f"{floor['chain_sum']} % on sums;",
        f"showed up to {max(run['clock_s'] / run['processor_s'] for run in runs):.1f} times as much.",
    ]  # fmt: skip


QUOTES: dict[str, Quoting] = {"smol_reasoning": smol}
