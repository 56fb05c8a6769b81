"""A critic that PPO would do better without: one that does not learn, or one that misleads.

Explained variance alone does not tell. A critic that has learnt the mean return and nothing else
has one of about 0, and is a sound baseline; so has one that never moved from 0, where every critic
begins. What parts them is the mean value. Well below 0 the values add more variance to the
advantages than the returns have themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from recollect.config.schema.config import Config
from recollect.config.schema.critic import CriticSettings
from recollect.doctor.finding import Change, Finding, change
from recollect.doctor.history import History, middle, of_steps, values

FEWEST = 9  # steps before a critic can be expected to know the mean
_KNOWS = 0.1  # explained variance of a critic that tells good states from bad ones
_MOVED = 0.25  # of the mean return: what the mean value has reached at some step
_MISLEADS = -0.5  # explained variance: errors vary half as much again as returns
_SOLVED = 0.95  # success at which returns hardly vary, and any noise of values looks large


def critic_findings(history: History) -> Iterator[Finding]:
    """Yield what is wrong with the critic; nothing where there is none."""
    lines = history.recent
    known = middle(lines, "critic/explained_variance")
    expected, came = values(lines, "critic/value"), values(lines, "critic/return")
    if len(history.steps) < FEWEST or known is None or not expected or not came:
        return
    value, back = fmean(expected), fmean(came)
    reached = max(abs(each) for each in values(history.steps, "critic/value"))
    solved = (middle(lines, "reward/success") or 0.0) >= _SOLVED
    if known < _MISLEADS and not solved:
        name, what = "critic_misleads", "varies more than what it should foretell"
        changes = [_slower(history.config)]
    elif known < _KNOWS and reached < _MOVED * abs(back):
        name, what = "critic_does_not_learn", "has hardly moved from 0, where it began"
        changes = [_faster(history.config)]
    else:
        return
    yield Finding(
        "learning",
        name,
        f"The critic {what}: it expects {value:.3f} where {back:.3f} comes, with an explained "
        f"variance of {known:.2f}.",
        (
            of_steps("critic/explained_variance, median", known, lines),
            of_steps("critic/value, mean", value, lines),
            of_steps("critic/return, mean", back, lines),
        ),
        tuple(changes),
    )


def _faster(config: Config) -> Change:
    """Ten times the rate; at least the usual one of a head, or the policy's own for a model."""
    usual = CriticSettings().learning_rate
    least = usual if config.critic.kind == "head" else config.train.learning_rate
    rate = max(least, _round(10 * config.critic.learning_rate))
    return change(config, "critic.learning_rate", rate, "it moves too slowly to be of use")


def _slower(config: Config) -> Change:
    rate = _round(config.critic.learning_rate / 10)
    return change(config, "critic.learning_rate", rate, "it follows the noise of single steps")


def _round(rate: float) -> float:
    return float(f"{rate:.2g}")
