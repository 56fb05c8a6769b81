"""docs/training.md: how fast it is beside TRL."""

from __future__ import annotations

from .spelling import Quoting, Results, short, spread

MODELS = {"tiny": "tiny, 1 M", "30M": "30 M"}


def row(found: Results) -> str:
    """A case: speeds, their ratio, what there is to gain, and where our time goes."""
    case, ours, theirs = found["case"], found["recollect"], found["trl"]
    speeds = [short(side["rollouts_per_s"]["median"], large=10) for side in (ours, theirs)]
    return (
        f"| {MODELS[case['model']]} | {case['prompts']} x {case['rows']} x {case['tokens']} + "
        f"{case['prompt_tokens']} | {', '.join(speeds)} | {spread(found['ratio'], '.2f')} | "
        f"{found['ratio_of_tokens_computed']:.2f} | {100 * ours['generation_share']:.0f}, "
        f"{100 * ours['training_share']:.0f}, {100 * ours['rest_share']:.1f} % |"
    )


def speed(results: Results) -> list[str]:
    """Everything that the section takes from the file."""
    release = ".".join(results["versions"]["trl"].split(".")[:2])
    return [
        f"TRL {release}'s",
        "\n".join(row(found) for found in results["figures"]["cases"]),
    ]


QUOTES: dict[str, Quoting] = {"vs_trl": speed}
