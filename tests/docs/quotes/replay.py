"""docs/replay.md: what replay buys, which settings matter, age, packing, draws."""

from __future__ import annotations

from .spelling import Quoting, Results, estimate, points, ratio, setting, short, span, spread

REPLAYS, TWINS = ("replay", "narrow-replay"), ("twin", "narrow-twin")
SIDES = ("replay", "twin")
SHAPES = {"replay": "wide", "narrow-replay": "narrow", "twin": "wide", "narrow-twin": "narrow"}
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


def pair(study: Results, replay: str, twin: str) -> Results:
    """One arm with replay against one without it."""
    named = {(found["replay"], found["twin"]): found for found in study["pairs"]}
    return named[replay, twin]


def regime(found: Results) -> str:
    """The rows of a regime after its description; the strongest of a side at its best is bold."""
    rows = []
    for way in ("same", "best"):
        study = found.get(way, {"pairs": []})
        for against in study["pairs"]:
            ours, theirs = (against[side] for side in ("replay", "twin"))
            bold = ["**" * (way == "best" and study["strongest"][s] == against[s]) for s in SIDES]
            rows.append(
                f"| {way} | {bold[0]}{SHAPES[ours]}{bold[0]} | {bold[1]}{SHAPES[theirs]}{bold[1]} "
                f"| {estimate(against['rollouts_ratio'])} "
                f"| {estimate(against['area_difference'], points)} "
                f"| {estimate(against['final_difference'], points)} "
                f"| {study['arms'][ours]['reached']}, {study['arms'][theirs]['reached']} |"
            )
    # A wide step is four groups of eight rows.
    return f"{32 * int(setting(found['settings'], 'run.steps'))} rollouts " + "\n| ".join(rows)


def sparse(results: Results) -> list[str]:
    """The rows of the table, the ratios that the prose gives, and seeds of one side alone."""
    found = results["figures"]
    same, alone = found["same"], found["alone"]
    plain = pair(same, "replay", "twin")["rollouts_ratio_restricted"]
    twin, narrow = (pair(found["best"], "replay", name) for name in TWINS)
    arms = found["best"]["arms"]
    return [
        regime(found),
        f"{same['arms']['replay']['reached']} seeds reach 40 %, {same['arms']['twin']['reached']}",
        f"{ratio(plain['point'])} times as many ({interval(plain)})",
        f"{ratio(twin['rollouts_ratio']['point'])} times the rollouts "
        f"({interval(twin['rollouts_ratio'])})",
        f"{arms['twin']['reached']} get there instead of {arms['replay']['reached']}",
        f"counted as above {estimate(twin['rollouts_ratio_restricted'])}",
        f"the interval ({interval(narrow['rollouts_ratio'])})",
        f"counted as above it needs {estimate(narrow['rollouts_ratio_restricted'])}",
        *(
            f"{len(solved)} of {whose}{alone[winner]['settings_tried']}"
            for winner, whose in (("replay", "the "), ("twins", "replay's "))
            for solved in alone[winner]["solved_by"].values()
        ),
    ]


def inherited(results: Results) -> list[str]:
    """The rows of the table, when replay arrives, and what the others need."""
    found = results["figures"]
    arms = found["best"]["arms"]
    begun = arms["replay"]["rollouts_to_target"]
    twin, narrow = (
        pair(found["best"], "replay", name)["rollouts_ratio_restricted"] for name in TWINS
    )
    return [
        regime(found),
        f"{arms['replay']['reached']} seeds reach 40 % after "
        f"{span([n for n in begun if n is not None])} rollouts",
        f"{arms['twin']['reached']} and {arms['narrow-twin']['reached']} get there at all",
        f"{estimate(twin)} and {estimate(narrow)} times as many",
    ]


def by_shape(found: Results, figure: str) -> list[str]:
    """Each side in its strongest shape, wide steps beside wide ones, narrow beside narrow ones."""
    best = found["best"]
    pairs = [tuple(best["strongest"][side] for side in SIDES), *zip(REPLAYS, TWINS, strict=True)]
    return [estimate(pair(best, *names)[figure]) for names in pairs]


def dense(results: Results) -> list[str]:
    """The rows of the table; the sides in their strongest shape, and in the same one."""
    found = results["figures"]
    strongest, wide, narrow = by_shape(found, "rollouts_ratio")
    slower = pair(found["best"], "narrow-replay", "narrow-twin")["seconds_ratio"]
    return [
        regime(found),
        f"{strongest} times the rollouts",
        f"{wide} in wide steps and {narrow} in narrow ones",
        f"{estimate(slower)} of the time",
    ]


def dear(results: Results) -> list[str]:
    """The rows of the table, and the time that narrow runs need, of either side."""
    found = results["figures"]
    twin, narrow = (pair(found["best"], "narrow-replay", name)["seconds_ratio"] for name in TWINS)
    return [regime(found), f"the twin {estimate(twin)} and the narrow run {estimate(narrow)} times"]


def interval(found: Results) -> str:
    """The interval of a ratio: `1.23 to infinite`."""
    return f"{ratio(found['low'])} to {ratio(found['high'])}"


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
    "replay_settings_buffer": buffer,
    "replay_settings_mix": mix,
    "ageing": ageing,
    "packing": packing,
    "draw": draw,
}
