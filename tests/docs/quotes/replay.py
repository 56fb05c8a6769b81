"""docs/replay.md: what replay buys, which settings matter, age, packing, draws."""

from __future__ import annotations

from math import inf
from statistics import median

from .spelling import Quoting, Results, estimate, points, ratio, setting, short, span, spread

TWINS = {"twin": "twin", "narrow-twin": "narrow run"}
BUFFER = {
    "buffer-of-successes": "`buffer`, successes only (`pool.keep`)",
    "buffer-young": "`buffer`, rows of at most 8 updates' age",
    "repair-buffer": "`repair, buffer` (the demo)",
    "buffer-4-updates-16-uses": "`buffer`, 4 updates a step and 16 uses",
    "mix-repair-buffer": "`mix, repair, buffer`",
    "mix": "`mix`",
    "repair": "no replay, and `repair` alone",
    "buffer-shape": "`buffer`, correction `shape`",
}
LIMITS = {
    "age-30-uses-4": "30 updates, 4 uses (the default)",
    "age-200-uses-4": "200 updates, 4 uses",
    "age-200-uses-16": "200 updates, 16 uses",
    "age-200-uses-16-alike": "the same, all rows alike (`draw.alpha=0`)",
    "twin": "no replay",
}
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


def regime(found: Results) -> str:
    """The rows of a regime after its description; the strongest at its best is bold."""
    rows = []
    for way, twin in (("same", "twin"), ("best", "twin"), ("best", "narrow-twin")):
        if way not in found:
            continue
        study = found[way]
        bold = "**" if way == "best" and study["strongest"] == twin else ""
        against, arms = study["against"][twin], study["arms"]
        rows.append(
            f"| {way} | {bold}{TWINS[twin]}{bold} | {estimate(against['rollouts_ratio'])} | "
            f"{estimate(against['area_difference'], points)} | "
            f"{estimate(against['final_difference'], points)} | "
            f"{arms['replay']['reached']}, {arms[twin]['reached']} |"
        )
    # A step is four groups of eight rows.
    return f"{32 * int(setting(found['settings'], 'run.steps'))} rollouts " + "\n| ".join(rows)


def sparse(results: Results) -> list[str]:
    """The rows of the table, and the ratios that the prose gives with their intervals."""
    found = results["figures"]
    twin, wide = (found["best"]["against"][name] for name in TWINS)
    return [
        regime(found),
        f"twin: {within(twin['rollouts_ratio_restricted'])}",
        f"wide run: {within(wide['rollouts_ratio_restricted'])}",
        within(wide["seconds_ratio_restricted"]),
    ]


def inherited(results: Results) -> list[str]:
    """The rows of the table, and when replay arrives."""
    found = results["figures"]
    begun = found["best"]["arms"]["replay"]["rollouts_to_target"]
    return [regime(found), f"{span([n for n in begun if n is not None])} rollouts"]


def dense(results: Results) -> list[str]:
    """The rows of the table, either run without replay, and replay as it is set."""
    found = results["figures"]
    twin, wide = (found["best"]["against"][name] for name in TWINS)
    as_set = found["untuned"]
    return [
        regime(found),
        within(twin["rollouts_ratio"]),
        within(wide["rollouts_ratio"]),
        "the twin needs " + estimate(twin["seconds_ratio"]).replace(" (", " of replay's seconds ("),
        "the wide run " + estimate(wide["seconds_ratio"]).replace(" (", " of them ("),
        f"{ratio(as_set['rollouts_ratio']['point'])} times better than the "
        f"{TWINS[as_set['against']]}'s",
    ]


def dear(results: Results) -> list[str]:
    """The rows of the table, and the time that replay saves."""
    found = results["figures"]
    twin, wide = (found["best"]["against"][name]["seconds_ratio"] for name in TWINS)
    return [
        regime(found),
        f"{ratio(wide['point'])} times faster than the stronger run without it, the wide run "
        f"({ratio(wide['low'])} to {ratio(wide['high'])})",
        f"at least {ratio(twin['low'])} times faster than the twin",
    ]


def within(found: Results) -> str:
    """A ratio with its interval, as prose has it at the end of brackets."""
    return f"{ratio(found['point'])}, {ratio(found['low'])} to {ratio(found['high'])})"


def epochs(results: Results) -> list[str]:
    """Eight epochs instead of four for the wide run."""
    arms = results["figures"]["arms"]
    four, eight, half = (
        arms[f"wide-{name}"] for name in ("4-epochs", "8-epochs", "8-epochs-half-rate")
    )
    there = median(inf if n is None else n for n in half["rollouts_to_target"])
    return [
        f"{eight['reached']} instead of {four['reached']}",
        f"{half['reached']}, a median of {there:.0f}",
    ]


def arm(label: str, found: Results) -> str:
    """A row of settings: area, last success, rows trained over rows generated."""
    used = found["replay_ratio"]
    trained = f"{used['median']:.1f} |" if used else "|"
    area, final = spread(found["area"], ".1f", "-"), spread(found["final"], ".0f", "-")
    return f"| {label} | {area} | {final} | {trained}"


def buffer(results: Results) -> list[str]:
    """Which settings matter."""
    arms = results["figures"]["arms"]
    return ["\n".join(arm(label, arms[name]) for name, label in BUFFER.items())]


def mix(results: Results) -> list[str]:
    """Where tasks come back."""
    arms = results["figures"]["arms"]
    repair, without = (spread(arms[name]["final"], ".0f") for name in ("repair", "twin"))
    gaussian, plain = (
        f"{area['median']:.1f}{{}}, {area['min']:.1f} to {area['max']:.1f}"
        for area in (arms["mix-gaussian"]["area"], arms["mix"]["area"])
    )
    return [
        f"`repair` at {repair}, without replay {without}",
        f"{gaussian.format(' points')}, against {plain.format('')}",
    ]


def limits(results: Results) -> list[str]:
    """How often and how old."""
    arms = results["figures"]["arms"]
    four, sixteen = (
        arms[f"age-{n}"]["replay_ratio"]["median"] for n in ("30-uses-4", "200-uses-16")
    )
    return [
        "\n".join(arm(label, arms[name]) for name, label in LIMITS.items()),
        f"{sixteen / four:.1f} times the training",
    ]


def ageing(results: Results) -> list[str]:
    """How old a row may be."""
    return [
        "\n".join(
            f"| {label} | {found['age_max']['median']:.0f} | {found['final']['median']:.0f} "
            f"({found['final']['min']:.0f}) | {found['best']['median']:.0f} | "
            f"{found['collapsed']:.0f}/{found['seeds']} | {found['ess']['median']:.2f} | "
            f"{found['ratio_p99']['median']:.2f} |"
            for found, label in (
                (results["figures"][name], label) for name, label in AGEING.items()
            )
        )
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
    return ["\n".join(rows)]


def draw(results: Results) -> list[str]:
    """How fast a draw is."""
    return [
        f"TorchRL {results['versions']['torchrl']} with",
        "\n".join(
            f"| {int(size):,} | {' | '.join(f'{short(ms[rule], 100, 1)} ms' for rule in DRAWS)} |"
            for size, ms in results["figures"]["milliseconds_for_256_draws"].items()
        ),
    ]


QUOTES: dict[str, Quoting] = {
    "replay_gain_sparse": sparse,
    "replay_gain_inherited": inherited,
    "replay_gain_dense": dense,
    "replay_gain_dear": dear,
    "replay_settings_epochs_sparse": epochs,
    "replay_settings_epochs_dense": epochs,
    "replay_settings_buffer": buffer,
    "replay_settings_mix": mix,
    "replay_settings_limits": limits,
    "ageing": ageing,
    "packing": packing,
    "draw": draw,
}
