"""docs/replay.md but for what replay buys: settings, age, packing, draws."""

from __future__ import annotations

from .spelling import (
    WORDS,
    Quoting,
    Results,
    claim,
    overlap,
    setting,
    short,
    spread,
    table,
)

BUFFER = {
    "buffer-of-successes": "`buffer`, successes only (`pool.keep`)",
    "buffer-young": "`buffer`, rows of at most 8 updates' age",
    "repair-buffer": "**`repair, buffer` (the demo)**",
    "buffer-4-updates-16-uses": "`buffer`, 4 updates a step and 16 uses",
    "repair": "no replay, and `repair` alone",
    "buffer-shape": "`buffer`, correction `shape`",
    "mix": "`mix`",
    "mix-repair-buffer": "`mix, repair, buffer`",
}
LIMITS = {
    "age-30-uses-4": "**30 updates, 4 uses (the default)**",
    "age-200-uses-4": "200 updates, 4 uses",
    "age-200-uses-16": "200 updates, 16 uses",
    "age-200-uses-16-alike": "the same, all rows alike (`draw.alpha=0`)",
    "twin": "no replay",
}
CHOICES = ("mix", "mix-highest-entropy", "mix-lowest-entropy", "mix-likeliest", "mix-retire",
           "mix-shape")  # fmt: skip
AGEING = {
    "clip, young rows": "clip, rows of at most 8 updates",
    "clip": "clip",
    "truncate": "truncate",
    "mask": "mask",
    "clip, whole row": "clip, whole row (geometric)",
    "weight": "weight (no bound)",
    "recomputed": "clip, recomputed log-probs",
    "shape": "shape",
}
PACKING = {
    "tiny, rules as they are": "tiny, about 100 tokens",
    "tiny, rules 8 times as long": "tiny, about 800 tokens",
    "30M, rules as they are": "30 M, about 100 tokens",
}
DRAWS = ("all rules", "age limit", "quotas", "made anew", "cpprb", "torchrl")


def _row(label: str, arm: Results) -> str:
    used = arm["replay_ratio"]
    trained = f"{used['median']:.1f} |" if used else "|"
    return f"| {label} | {spread(arm['area'], '.1f', '-')} | {spread(arm['final'], '.0f', '-')} | {trained}"


def _alike(one: Results, other: Results) -> bool:
    return all(one[figure] == other[figure] for figure in ("area", "final"))


def buffer(results: Results) -> list[str]:
    """Which settings matter: the arms, the largest area first, and what is said of them."""
    arms = results["figures"]["arms"]
    without = arms["twin"]["final"]["min"]
    below = [name for name in BUFFER if arms[name]["final"]["max"] < without]
    best = [arms[name] for name in ("buffer-of-successes", "buffer-young", "repair-buffer",
                                    "buffer-4-updates-16-uses")]  # fmt: skip
    close = all(overlap(one["area"], other["area"]) for one in best for other in best)
    steps = setting(results["figures"]["settings"], "run.steps")
    order = sorted(BUFFER, key=lambda name: -arms[name]["area"]["median"])
    seeds = WORDS[len(results["seeds"])]
    return [
        f"four groups a step, {seeds} other seeds, all at the demo's learning rate",
        table(_row(BUFFER[name], arms[name]) for name in order),
        f"{seeds.capitalize()} seeds, and most ranges overlap",
        claim(
            set(below) == {"buffer-shape", "mix-repair-buffer"},
            "Only the last successes with `shape` and with `mix, repair, buffer` lie clearly below "
            "that of no replay.",
        ),
        claim(close, "Successes only, young rows only, twice the updates: all within each other's "
              "range."),
        claim(_alike(arms["buffer-by-advantage"], arms["buffer"]),
              "Raising `draw.alpha` from 0.5 to 1 changes nothing at all"),
        claim(_alike(arms["repair"], arms["twin"]), "**`repair` does nothing here**"),
        claim(_alike(arms["repair-buffer"], arms["buffer"]), "It costs nothing either."),
        f"none comes back within {steps} steps.",
    ]  # fmt: skip


def mix(results: Results) -> list[str]:
    """Where tasks come back."""
    figures = results["figures"]
    arms = figures["arms"]
    finals = [arms[name]["final"] for name in CHOICES]
    medians = [final["median"] for final in finals]
    gaussian, plain, twin = (arms[name]["area"] for name in ("mix-gaussian", "mix", "twin"))
    others = [arm["area"] for name, arm in arms.items() if name != "mix-gaussian"]
    apart = not overlap(gaussian, plain) and all(overlap(area, twin) for area in others)
    only = claim(apart, "Areas of all arms lie within each other's range but for")
    repair, without = (spread(arms[name]["final"], ".0f") for name in ("repair", "twin"))
    return [
        f"({setting(figures['settings'], 'environment.tasks')} tasks, the shipped model",
        f"ends at {min(medians):.0f} to {max(medians):.0f} % "
        f"({min(final['min'] for final in finals):.0f} to "
        f"{max(final['max'] for final in finals):.0f}), `repair` at {repair}, without replay {without}. "
        f"{only} **Gaussian buckets, which learn less** ({gaussian['median']:.1f} points, "
        f"{gaussian['min']:.1f} to {gaussian['max']:.1f}, against {plain['median']:.1f}, "
        f"{plain['min']:.1f} to {plain['max']:.1f}).",
        claim(all(overlap(arms[name]["final"], arms["mix"]["final"])
                  for name in ("mix-baseline", "mix-off")), "Participation makes no difference"),
        claim(_alike(arms["mix-likeliest"], arms["mix"]),
              "`likeliest` takes the newest of them, run for run."),
    ]  # fmt: skip


def limits(results: Results) -> list[str]:
    """How often and how old."""
    arms = results["figures"]["arms"]
    four, sixteen = arms["age-30-uses-4"], arms["age-200-uses-16"]
    times = sixteen["replay_ratio"]["median"] / four["replay_ratio"]["median"]
    stays = f"{four['final']['median']:.0f}" == f"{sixteen['final']['median']:.0f}"
    better = all(four[figure]["min"] < sixteen[figure]["min"] for figure in ("area", "final"))
    return [
        f"with one group a step as above, {WORDS[len(results['seeds'])]} seeds",
        table(_row(label, arms[name]) for name, label in LIMITS.items()),
        claim(_alike(four, arms["age-200-uses-4"]), "The age limit never binds here"),
        f"Sixteen uses instead of four cost {times:.1f} times the training and "
        f"{claim(stays, 'leave the median where it was')}, "
        f"{claim(better, 'but the worst seed fares better')}.",
        claim(overlap(arms["age-200-uses-16-alike"]["area"], sixteen["area"]),
              "Priorities make no difference."),
    ]  # fmt: skip


def ageing(results: Results) -> list[str]:
    """How old a row may be."""
    figures = results["figures"]
    rows = [
        f"| {label} | {arm['age_max']['median']:.0f} | {arm['final']['median']:.0f} "
        f"({arm['final']['min']:.0f}) | {arm['best']['median']:.0f} | "
        f"{arm['collapsed']:.0f}/{arm['seeds']} | {arm['ess']['median']:.2f} | "
        f"{arm['ratio_p99']['median']:.2f} |"
        for name, label in AGEING.items()
        for arm in (figures[name],)
    ]
    lost = figures["clip"]["final"]["median"] - figures["recomputed"]["final"]["median"]
    none = all(arm["collapsed"] == 0 for arm in figures.values())
    mild = all(arm["ratio_p99"]["median"] < 1.7 for arm in figures.values())
    return [
        f"on fresh ones, {WORDS[len(results['seeds'])]} seeds",
        table(rows),
        claim(none, "No correction collapsed"),
        claim(mild, "the medians of their 99 % quantiles are below 1.7"),
        f"recorded ones costs {WORDS[round(lost)]} points.",
    ]


def packing(results: Results) -> list[str]:
    """What an update on stored rows costs."""
    rows = []
    for name, label in PACKING.items():
        found = results["figures"][name]
        ways = [
            f"{found[way]['tokens']['median']:,}, {short(found[way]['seconds']['median'])}"
            for way in ("apart", "by task", "tree")
        ]
        rows.append(f"| {label} | {' | '.join(ways)} | {spread(found['apart / tree'], '.1f')} |")
    return [table(rows)]


def draw(results: Results) -> list[str]:
    """How fast a draw is."""
    found = results["figures"]["milliseconds_for_256_draws"]
    rows = [
        f"| {int(size):,} | {' | '.join(f'{short(ms[rule], 100, 1)} ms' for rule in DRAWS)} |"
        for size, ms in found.items()
    ]
    return [table(rows), f"TorchRL {results['versions']['torchrl']} with its C++ part"]


QUOTES: dict[str, Quoting] = {
    "replay_settings_buffer": buffer,
    "replay_settings_mix": mix,
    "replay_settings_limits": limits,
    "ageing": ageing,
    "packing": packing,
    "draw": draw,
}
