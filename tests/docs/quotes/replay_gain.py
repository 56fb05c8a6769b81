"""docs/replay.md, what replay buys."""

from __future__ import annotations

from .spelling import (
    WORDS,
    Quoting,
    Results,
    claim,
    estimate,
    generated,
    median_reached,
    points,
    ratio,
    reached,
    setting,
    share_in_words,
    table,
)

# Regime, how it is described (with its target and length), which of its comparisons, and with whom.
ROWS = (
    ("sparse", "**sparse**: a start that is hardly ever right; to {target} %, {rollouts} rollouts",
     (("same", "twin"), ("best", "twin"), ("best", "wide-twin"))),
    ("inherited", "**inherited**: the same, replay begins with the pool of an earlier run of the "
     "shipped model; {rollouts} rollouts", (("best", "twin"), ("best", "wide-twin"))),
    ("dense", "**dense**: the shipped model; to {target} %, {rollouts} rollouts",
     (("same", "twin"), ("best", "twin"), ("best", "wide-twin"))),
    ("dear", "**dear** (expensive): dense, every answer of a tool or user takes a second; {rollouts} "
     "rollouts", (("best", "twin"), ("best", "wide-twin"))),
)  # fmt: skip
NAMES = {"twin": "twin", "wide-twin": "wide run"}


def comparison(found: Results, which: str, against: str) -> str:
    """One row of the table but for the regime; the strongest of the best is in bold."""
    study = found[which]
    name, figures = NAMES[against], study["against"][against]
    if which == "best" and study["strongest"] == against:
        name = f"**{name}**"
    arms = study["arms"]
    return (
        f"{which} | {name} | {estimate(figures['rollouts_ratio'], ratio)} | "
        f"{estimate(figures['area_difference'], points)} | "
        f"{estimate(figures['final_difference'], points)} | "
        f"{arms['replay']['reached']}, {arms[against]['reached']} |"
    )


def whole_table(figures: Results) -> str:
    """The table, each regime described in its first row only."""
    lines = []
    for regime, described, comparisons in ROWS:
        found = figures[regime]
        first = described.format(
            target=f"{100 * found['target']:.0f}", rollouts=generated(found["settings"])
        )
        for number, (which, against) in enumerate(comparisons):
            label = "" if number else first + " "
            lines.append(f"| {label}| {comparison(found, which, against)}")
    return table(lines)


def rate(arm: Results) -> float:
    """Learning rate that an arm trained with."""
    return float(setting(arm["settings"], "train.learning_rate"))


def intro(results: Results) -> list[str]:
    """What was compared."""
    figures = results["figures"]
    replay, wide = (
        [figures[regime]["best"]["arms"][arm] for regime in ("sparse", "dense")]
        for arm in ("replay", "wide-twin")
    )
    lowest = all(
        rate(arm) == min(rate({"settings": tried.split()}) for tried in arm["tried"])
        for arm in replay
    )
    most = all(setting(arm["settings"], "train.epochs") == "4" for arm in wide)
    settings = figures["sparse"]["settings"]
    return [
        f"built-in model, {WORDS[len(results['seeds'])]} seeds (`benchmarks/replay_gain.py`",
        f"updates of {setting(settings, 'replay.buffer_rows')} stored rows, of at most "
        f"{setting(settings, 'pool.max_age')} updates' age (of any age where the pool is inherited) "
        f"and used at most {setting(settings, 'pool.max_uses')} times",
        claim(most, "The best wide run has four epochs, the most that was tried"),
        claim(lowest, "replay's learning rate is the lowest tried"),
        f"Evaluations are {8 * int(setting(settings, 'eval.every'))} rollouts apart.",
    ]


def inherited_pool(figures: Results, seeds: int) -> str:
    """The first bullet."""
    found = figures["inherited"]
    arms = found["best"]["arms"]
    begun = arms["replay"]["rollouts_to_target"]
    every = claim(reached(begun) == seeds, f"all {WORDS[seeds]}")
    twin, wide = (reached(arms[arm]["rollouts_to_target"]) for arm in ("twin", "wide-twin"))
    return (
        f"{every} seeds reach {100 * found['target']:.0f} % after {min(filter(None, begun)):.0f} to "
        f"{max(filter(None, begun)):.0f} rollouts. Of the best runs without replay {WORDS[twin]} of "
        f"{WORDS[seeds]} and {WORDS[wide]} of {WORDS[seeds]} get there at all in "
        f"{generated(found['settings'])}."
    )


def rare(figures: Results, seeds: int) -> list[str]:
    """The second bullet, of the sparse regime."""
    found = figures["sparse"]["best"]
    arms, against = found["arms"], found["against"]
    replay, twin, wide = (arms[a]["rollouts_to_target"] for a in ("replay", "twin", "wide-twin"))
    only = reached(replay) == seeds > max(reached(twin), reached(wide))
    pairs = [pair for pair in zip(twin, replay, strict=True) if pair[0] is not None]
    faster = [pair for pair in pairs if pair[0] < pair[1]]
    same = sum(one == other for one, other in pairs)
    slower = sum(one > other for one, other in pairs)
    twice = claim(rate(arms["twin"]) == 2 * rate(arms["replay"]), "best at twice the learning rate")
    examples = " and ".join(f"{one:.0f} rollouts against {other:.0f}" for one, other in faster)
    return [
        f"{claim(only, 'replay is the only one that reaches')} "
        f"{100 * figures['sparse']['target']:.0f} % with all {WORDS[seeds]} seeds; its median is "
        f"{median_reached(replay):.0f} rollouts, that of the wide run {median_reached(wide):.0f} "
        f"(ratio {ratio(against['wide-twin']['rollouts_ratio']['point'])}, "
        f"{ratio(against['wide-twin']['rollouts_ratio']['low'])} to "
        f"{ratio(against['wide-twin']['rollouts_ratio']['high'])}).",
        f"The twin, {twice}, is faster on {WORDS[len(faster)]} seed ({examples}), as fast on "
        f"{WORDS[same]}, slower on {WORDS[slower]}, and does not get there on "
        f"{WORDS[seeds - len(pairs)]}: its interval of ratios begins at "
        f"{ratio(against['twin']['rollouts_ratio']['low'])}.",
    ]


def not_rare(figures: Results, seeds: int) -> list[str]:
    """The third bullet, of the dense regime."""
    dense = figures["dense"]
    tuned = dense["best"]["against"][dense["best"]["strongest"]]["rollouts_ratio"]
    as_set = dense["untuned"]["rollouts_ratio"]
    of_it = claim(
        dense["untuned"]["against"] == dense["best"]["strongest"], "better than that run's"
    )
    below = seeds - reached(dense["same"]["arms"]["replay"]["rollouts_to_target"])
    return [
        f"needs {share_in_words(1 - 1 / tuned['point'])} fewer rollouts than the strongest run without "
        f"it (ratio {ratio(tuned['point'])}, {ratio(tuned['low'])} to {ratio(tuned['high'])}).",
        f"As set, untuned, its median is {ratio(as_set['point'])} times {of_it} "
        f"({ratio(as_set['low'])} to {ratio(as_set['high'])}: {WORDS[below]} seed of {WORDS[seeds]} "
        f"stayed below {100 * dense['target']:.0f} %).",
    ]


def times(figures: Results) -> list[str]:
    """The last two bullets: what it costs, and what we aimed at."""
    dense, sparse, dear = (figures[regime]["best"] for regime in ("dense", "sparse", "dear"))
    near, far = (study["against"][study["strongest"]]["seconds_ratio"] for study in (dense, dear))
    wide = sparse["against"]["wide-twin"]
    rollouts = wide["rollouts_ratio"]
    seconds = wide["seconds_ratio"]
    return [
        f"needs {ratio(near['point'])} of replay's seconds ({ratio(near['low'])} to "
        f"{ratio(near['high'])}), in the sparse one the wide run about as many "
        f"({ratio(seconds['point'])}, {ratio(seconds['low'])} to {ratio(seconds['high'])}).",
        f"replay was {ratio(far['point'])} times faster than the strongest run without it "
        f"({ratio(far['low'])} to {ratio(far['high'])}).",
        f"({ratio(rollouts['point'])} from {ratio(rollouts['low'])} against the wide run;",
        f"1.3 times less time in the dear one ({ratio(far['point'])}), and nothing lost in the dense "
        f"one ({ratio(figures['dense']['untuned']['rollouts_ratio']['point'])} as set).",
    ]


def gain(results: Results) -> list[str]:
    """Everything that the section takes from the file."""
    figures, seeds = results["figures"], len(results["seeds"])
    return [
        *intro(results),
        whole_table(figures),
        inherited_pool(figures, seeds),
        *rare(figures, seeds),
        *not_rare(figures, seeds),
        *times(figures),
    ]


QUOTES: dict[str, Quoting] = {"replay_gain": gain}
