"""docs/results.md: the table of all measurements, which says how many of what there were."""

from __future__ import annotations

from collections.abc import Callable, Sized

from .spelling import WORDS, Quoting, Results


def count(found: Sized) -> str:
    """Spell a number of things."""
    return WORDS[len(found)]


def saying(text: Callable[[Results], str]) -> Quoting:
    """Quote one text."""
    return lambda results: [text(results)]


def replay_arms(results: Results) -> str:
    """Groups of arms of the same size, the twin apart."""
    arms = WORDS[len(results["figures"]["arms"]) - 1]
    return f"{arms} arms beside one twin, {count(results['seeds'])} seeds;"


QUOTES: dict[str, Quoting] = {
    "demo": saying(lambda found: f"| `make demo`: {count(found['seeds'])} seeds |"),
    "replay_gain": saying(
        lambda found: f"| {count(found['figures'])} regimes, {count(found['seeds'])} seeds;"
    ),
    "replay_settings_buffer": saying(replay_arms),
    "replay_settings_mix": saying(replay_arms),
    "replay_settings_limits": saying(
        lambda found: (
            f"limits: {WORDS[len(found['figures']['arms']) - 1]} arms, "
            f"{count(found['seeds'])} seeds |"
        )
    ),
    "ageing": saying(
        lambda found: (
            f"| ages up to {found['figures']['clip']['age_max']['max']:.0f} updates, "
            f"{count(found['figures'])} corrections, {count(found['seeds'])} seeds |"
        )
    ),
    "ppo_replay": saying(
        lambda found: (
            f"| {count(found['figures']['sparse']['same'])} presets, "
            f"{count(found['seeds'])} seeds, some tuned |"
        )
    ),
    "notes": saying(
        lambda found: (
            f"{count(found['figures']['given'])} domains, {count(found['seeds'])} seeds, with"
        )
    ),
    "continual": saying(
        lambda found: (
            f"| {count(found['figures']['methods'])} arms, {count(found['seeds'])} seeds, "
            f"{count(found['figures']['domains'])} domains in a row |"
        )
    ),
}
