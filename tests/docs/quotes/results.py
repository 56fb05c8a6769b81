"""docs/results.md: a real model. What its table lists is explained, and quoted, on other pages."""

from __future__ import annotations

from .spelling import WORDS, Quoting, Results, span

LABELS = {"lora": "LoRA, rank 16", "full": "all weights"}


def rows(label: str, arms: Results) -> str:
    """The runs of one kind of weights, seed by seed."""
    lines: list[str] = []
    for replay, twin in zip(arms["replay"]["runs"], arms["twin"]["runs"], strict=True):
        gain = replay["after"] - twin["after"]
        lines.append(
            f"| {'' if lines else label + ' '}| {replay['seed']} | {replay['before']} % | "
            f"{replay['after']} % | {twin['after']} % | {f'{gain:+.1f}' if gain else '0.0'} | "
            f"{replay['processor_s']:.0f} | {twin['processor_s']:.0f} |"
        )
    return "\n".join(lines)


def smol(results: Results) -> list[str]:
    """The table, and what was learnt, at what cost."""
    figures = results["figures"]
    arms = {kind: figures[kind]["arms"] for kind in LABELS}
    both = {k: [run for arm in found.values() for run in arm["runs"]] for k, found in arms.items()}
    runs = [run for found in both.values() for run in found]
    memory = {k: f"{max(r['peak_memory'] for r in both[k]) / 2**30:.1f} GiB" for k in both}
    slower = [
        replay["processor_s"] / twin["processor_s"]
        for found in arms.values()
        for replay, twin in zip(found["replay"]["runs"], found["twin"]["runs"], strict=True)
    ]
    before, floor = runs[0]["by_dataset"]["before"], figures["commonest_answer"]
    after = {name: [run["by_dataset"]["after"][name] for run in runs] for name in before}
    first, last = ([100 * run["truncated"][end] for run in runs] for end in (0, 1))
    stuck = WORDS[after["gcd"].count(floor["gcd"])]
    return [
        *(rows(label, arms[kind]) for kind, label in LABELS.items()),
        f"{span([run['after'] - run['before'] for run in runs])} points in "
        f"{runs[0]['rollouts']:.0f} rollouts",
        f"{memory['lora']} of memory with adapters and {memory['full']} with",
        f"{span(slower, '.1f')} times the processor time",
        f"{span(first)} % of the attempts were cut off",
        f"at most {max(last):.0f} %",
        f"from {before['chain_sum']:.0f} % to {span(after['chain_sum'])} %",
        f"from {before['products']:.0f} % to {span(after['products'])} %",
        f"In {stuck} of {WORDS[len(runs)]} runs success there ended at exactly {floor['gcd']} %",
        f"{floor['gcd']} % on divisors, {floor['products']} % on products, {floor['chain_sum']} %",
    ]


QUOTES: dict[str, Quoting] = {"smol_reasoning": smol}
