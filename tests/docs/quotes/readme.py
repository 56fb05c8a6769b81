"""README.md: the promises, and the headline of everything that was measured."""

from __future__ import annotations

from statistics import mean, median

from .replay import by_shape, interval, pair
from .spelling import DOMAINS, WORDS, Quoting, Results, percent, ratio, span


def promises(results: Results) -> list[str]:
    """What was tried, and how often it failed."""
    tried = results["figures"]
    kills, flips, resumes = tried["kills"], tried["flips"], tried["resumes"]
    draws, cases = tried["draws"], tried["estimators"]
    anywhere = sum(flips["anywhere"].values())
    return [
        f"{kills['tried']:,} kills, {kills['acknowledged_rows_read_back']:,} rows read back | "
        f"{kills['lost']} |",
        f"{flips['in_records']:,} bytes flipped in records, {anywhere:,} anywhere in a store | "
        f"{flips['missed']} |",
        f"{resumes['tried']} runs, each with a seed of its own, killed and resumed | "
        f"{resumes['tried'] - resumes['identical']} |",
        f"draws of {draws['drawn']} from {draws['rows']} stored rows: all {draws['orders']} "
        f"orders, each from {draws['starts']} starting points with {draws['picks']} picks inside "
        f"a block | "
        f"{int(draws['largest_deviation'] > 1e-6)} |",
        f"{cases['cases']} cases, in which every possible answer of a small policy is enumerated | "
        f"{int(cases['largest_difference'] > 1e-12)} |",
    ]


def sparse(results: Results) -> list[str]:
    """How many seeds get there where success is rare, with replay and without, each at its best."""
    arms = results["figures"]["best"]["arms"]
    with_it, twin, narrow = (arms[n]["reached"] for n in ("replay", "twin", "narrow-twin"))
    wide = pair(results["figures"]["best"], "replay", "twin")["rollouts_ratio"]
    return [
        f"{with_it} seeds reach the target, without it {twin} and {narrow}",
        f"needs {ratio(wide['point'])} times the rollouts ({interval(wide)})",
    ]


def dense(results: Results) -> list[str]:
    """Either side in its strongest shape, and in the same ones, where success is common."""
    strongest, wide, narrow = by_shape(results["figures"], "rollouts_ratio")
    return [f"needs {strongest} times the rollouts", f"{wide} and {narrow} times"]


def inherited(results: Results) -> list[str]:
    """When replay that begins with an earlier pool arrives, and who does without."""
    best = results["figures"]["best"]
    replay, strongest = (best["arms"][best["strongest"][side]] for side in ("replay", "twin"))
    begun = [n for n in replay["rollouts_to_target"] if n is not None]
    return [
        f"{replay['reached']} seeds get there after {span(begun)} rollouts",
        f"{strongest['reached']} within 512",
    ]


def notes(results: Results) -> list[str]:
    """EI and the baseline, both without notes."""
    found = [results["figures"]["given"][domain]["methods"] for domain in DOMAINS]
    ei, never = (
        [percent(median(methods[name]["final"])) for methods in found]
        for name in ("ei", "baseline")
    )
    return [
        f"{ei[0]}, {ei[1]} and {ei[2]} % on three domains",
        f"against {never[0]}, {never[1]} and {never[2]} %",
    ]


def continual(results: Results) -> list[str]:
    """Points that are forgotten."""
    sft, replay, grpo = (
        100 * results["figures"]["methods"][name]["measures"]["forgetting"]["mean"]
        for name in ("sft", "sft+replay", "sequential")
    )
    return [
        f"forgets {sft:.0f} points; with rehearsal {replay:.1f}",
        f"by itself forgets {grpo:.1f}",
    ]


def speed(results: Results) -> list[str]:
    """How many times TRL's rollouts a second."""
    times = {case["case"]["name"]: case["ratio"] for case in results["figures"]["cases"]}

    def spelt(name: str, how: str, of: str = "") -> str:
        found = times[name]
        return f"{found['median']:{how}}x ({found['min']:{how}} to {found['max']:{how}}{of})"

    return [
        f"TRL {'.'.join(results['versions']['trl'].split('.')[:2])}'s",
        f"{spelt('tiny', '.2f', '; 1 M parameters')} and {spelt('30M', '.2f', '; 30 M')}",
        f"{spelt('tiny-long', '.1f')} and {spelt('30M-long', '.1f')}",
    ]


def demo(results: Results) -> list[str]:
    """How much higher replay ends."""
    last = {
        arm: mean(points[-1][1] for points in runs.values())
        for arm, runs in results["figures"]["curves"].items()
    }
    higher = f"{100 * (last['replay'] - last['twin']):.0f} points higher"
    return [f"In its {WORDS[len(results['seeds'])]} seeds replay ends {higher}"]


QUOTES: dict[str, Quoting] = {
    "promises": promises,
    "replay_gain_sparse": sparse,
    "replay_gain_dense": dense,
    "replay_gain_inherited": inherited,
    "notes": notes,
    "continual": continual,
    "vs_trl": speed,
    "demo": demo,
}
