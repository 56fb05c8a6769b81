"""docs/ppo.md: what the presets buy."""

from __future__ import annotations

from .spelling import (
    WORDS,
    Quoting,
    Results,
    claim,
    estimate,
    percent,
    points,
    ratio,
    setting,
    share_in_words,
    table,
)


def row(preset: str, found: Results) -> str:
    """A preset beside `off`."""
    last = estimate(found["final_median"], lambda share: f"{100 * share:.0f}")
    trained, gained, area = "", "", ""
    if preset != "off":
        trained = f"{found['replay_ratio_median']['point']:.2f}"
        gained = estimate(found["rollouts_ratio"], ratio)
        area = estimate(found["area_difference"], points)
    return (
        f"| `{preset}` | {trained} | {found['reached']} | {found['rollouts_median']['point']:.0f} | "
        f"{gained} | {area} | {last} | {found['collapsed']} |"
    )


def ppo(results: Results) -> list[str]:
    """Everything that the section takes from the file."""
    figures = results["figures"]["sparse"]
    same, best = figures["same"], figures["best"]
    tuned = best["standard"]
    rates = [text.split("=")[1] for text in tuned["chosen"]]
    both = claim(tuned["chosen"] == best["off"]["chosen"] == [
        f"train.learning_rate={rates[0]}", "train.epochs=1"], f"both chose {rates[0]} and one epoch")  # fmt: skip
    tried = [setting(text.split(), "train.learning_rate") for text in tuned["tried"]]
    highest = claim(float(rates[0]) == max(map(float, tried)), "That is the highest rate tried")
    calm = all(found["collapsed"].startswith("0/") for found in (*same.values(), *best.values()))
    level = claim(
        all(found["rollouts_ratio"]["low"] <= 1 for found in (*same.values(), tuned)
            if "rollouts_ratio" in found),
        "none is clearly ahead of `off`.",
    )  # fmt: skip
    gained, seconds = tuned["rollouts_ratio"], tuned["seconds_ratio"]
    no_faster = claim(seconds["low"] < 1 < seconds["high"], "no faster by the clock")
    no_higher = claim(tuned["final_difference"]["low"] < 0, "ends no higher.")
    efficient = same["high-efficiency"]
    useless = all(
        arm["tried"][f"train.learning_rate={rate} train.epochs=4"]
        <= arm["tried"][f"train.learning_rate={rate} train.epochs=1"]
        for arm in best.values()
        for rate in set(tried)
    )
    target = percent(figures["target"])
    return [
        f"{setting(figures['settings'], 'run.steps')} steps of four groups of eight rows, the preset "
        f"`ppo` with each of the five, {WORDS[len(results['seeds'])]} seeds",
        f"The target is {target} % held-out success;",
        f"| rollouts to {target} % |",
        table(row(preset, found) for preset, found in same.items()),
        f"{both}. {highest}, so",
        table(row(preset, found) for preset, found in best.items()),
        f"{claim(calm, '**No preset collapses')}, and {level}** Against the strongest `off`, `standard` "
        f"gets there with {share_in_words(1 - 1 / gained['point'])} fewer rollouts at best (ratio "
        f"{ratio(gained['point'])}, interval from {ratio(gained['low'])}), {no_faster}, and {no_higher}",
        f"`high-efficiency` trains on every row {efficient['replay_ratio_median']['point']:.1f} times and "
        + claim(efficient["rollouts_ratio"]["point"] <= 1, "learns no faster."),
        claim(useless, "**Four epochs do not help either of them** at either learning rate"),
    ]


QUOTES: dict[str, Quoting] = {"ppo_replay": ppo}
