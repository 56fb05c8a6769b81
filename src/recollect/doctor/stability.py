"""Training that is unstable: stale rows, steps too large, gradients that leap, a policy that falls.

Thresholds are where the usual advice begins, not laws: PPO implementations stop an update at a KL
of 0.01 to 0.05; an effective sample size of one half means that every second replayed token is
wasted; a clip that cuts a third of the tokens no longer guards, it decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from recollect.config.schema.config import Config
from recollect.doctor.finding import Change, Evidence, Finding, change
from recollect.doctor.history import History, middle, of_steps, values
from recollect.doctor.snapshot import Snapshot
from recollect.telemetry.reading import StepLine
from recollect.telemetry.scores import Score, pool

_ESS = 0.5
_GOOD_ESS = 0.7  # what a new age limit aims at
_KL = 0.05  # nats a token, from the policy that sampled
_CLIPPED = 0.3
_LEAP = 10.0  # a gradient norm over the usual one
_DIFFERENCE = 0.01  # nats a token between sampler and trainer, before any update
_COLLAPSED = 0.1  # entropy over what it was at first
_WINDOW = 5


def stability_findings(history: History) -> Iterator[Finding]:
    """Yield signs of instability."""
    yield from _stale(history)
    yield from _large_updates(history)
    yield from _leaps(history)
    yield from _not_finite(history)
    yield from _two_policies(history)
    yield from _entropy(history)
    yield from _fallen(history)


def _stale(history: History) -> Iterator[Finding]:
    """Find replayed rows whose policy ratios say that the policy has left them behind."""
    lines = [line for line in history.recent if "replay/ess" in line.metrics]
    ess, cut = middle(lines, "replay/ess"), middle(lines, "replay/clip_share")
    if ess is None or cut is None or (ess >= _ESS and cut <= _CLIPPED):
        return
    names = ("replay/ess", "replay/clip_share", "replay/ratio_p99", "replay/age_mean")
    known = [(name, middle(lines, name)) for name in names]
    yield Finding(
        "stability",
        "replayed_rows_are_stale",
        f"Replayed rows are too far from the policy: effective sample size {ess:.2f}, "
        f"{100 * cut:.0f} % of their tokens cut by the correction.",
        tuple(of_steps(f"{name}, median", value, lines) for name, value in known if value),
        tuple(_younger(history.config, history.snapshot)),
    )


def _younger(config: Config, snapshot: Snapshot | None) -> list[Change]:
    """Limit the age where the run's own uses say that rows were still good; else halve it."""
    found, age = [], _good_age(snapshot)
    if age == 0:
        found.append(_halved(config, "even the youngest uses had drifted: the policy moves fast"))
    elif age is not None and (config.pool.max_age is None or age < config.pool.max_age):
        text = f"uses up to this age had a mean effective sample size of {_GOOD_ESS} or more"
        found.append(change(config, "pool.max_age", age, text))
    elif config.pool.max_age is not None and config.pool.max_age > 1:
        found.append(change(config, "pool.max_age", config.pool.max_age // 2, "half of it"))
    uses = config.pool.max_uses
    if uses is None or uses > 2:
        found.append(change(config, "pool.max_uses", 2, "seed 003's cautious limit"))
    if config.pool.min_ess is None:
        found.append(change(config, "pool.min_ess", 0.3, "rows that have drifted stay out"))
    return found


def _good_age(snapshot: Snapshot | None) -> int | None:
    """Find the largest age up to which uses were good on average: 0 if none was, None if all."""
    if snapshot is None or not snapshot.ages.size:
        return None
    order = np.argsort(snapshot.ages, kind="stable")
    ages, ess = snapshot.ages[order], snapshot.ess[order]
    means = np.cumsum(ess) / np.arange(1, ess.size + 1)
    last = np.flatnonzero(np.r_[ages[1:] != ages[:-1], True])  # the last use of each age
    good = last[means[last] >= _GOOD_ESS]
    if not good.size:
        return 0
    return None if good[-1] == ages.size - 1 else max(1, int(ages[good[-1]]))


def _large_updates(history: History) -> Iterator[Finding]:
    lines = history.recent
    kl, cut = middle(lines, "policy/kl"), middle(lines, "policy/clip_share")
    if kl is None or cut is None or (kl <= _KL and cut <= _CLIPPED):
        return
    config, train = history.config, history.config.train
    changes = [_halved(config, "a step moves the policy half as far")]
    if train.epochs > 1:
        text = "fewer passes over the same rows"
        changes.append(change(config, "train.epochs", train.epochs - 1, text))
    largest = max(values(lines, "policy/ratio_max"), default=1.0)
    yield Finding(
        "stability",
        "updates_too_large",
        f"A step moves the policy far: KL {kl:.3f} nats a token from the one that sampled, "
        f"{100 * cut:.0f} % of fresh tokens clipped.",
        (
            of_steps("policy/kl, median", kl, lines),
            of_steps("policy/clip_share, median", cut, lines),
            of_steps("policy/ratio_max, largest", largest, lines),
        ),
        tuple(changes),
    )


def _leaps(history: History) -> Iterator[Finding]:
    """Find steps whose gradient was many times the usual one, and longer than the limit."""
    usual = [value for value in values(history.steps, "train/grad_norm") if value > 0]
    if len(usual) < 2 * _WINDOW:
        return
    level, config = median(usual), history.config
    bound = max(_LEAP * level, config.train.max_grad_norm)
    leaps = [s for s in history.steps if s.metrics.get("train/grad_norm", 0.0) > bound]
    if not leaps:
        return
    largest = max(values(leaps, "train/grad_norm"))
    where = ", ".join(str(line.step) for line in leaps[:5]) + (", ..." if len(leaps) > 5 else "")
    changes = [_halved(config, "the steps after a leap are smaller")]
    if config.train.max_grad_norm > 2 * level:
        text = f"twice the usual norm of {level:.3g}"
        changes.insert(0, change(config, "train.max_grad_norm", _two_digits(2 * level), text))
    yield Finding(
        "stability",
        "gradients_leap",
        f"The gradient's norm leapt to {largest:.3g} ({largest / level:.0f} times the median) in "
        f"{len(leaps)} of {len(history.steps)} steps: {where}.",
        (
            Evidence("train/grad_norm, largest", largest, leaps[0].step, leaps[-1].step),
            of_steps("train/grad_norm, median", level, history.steps),
        ),
        tuple(changes),
    )


def _not_finite(history: History) -> Iterator[Finding]:
    bad = [line for line in history.steps if line.metrics.get("train/skipped_steps", 0) > 0]
    if not bad:
        return
    count = sum(values(bad, "train/skipped_steps"))
    config = history.config
    changes = [_halved(config, "smaller updates")]
    if config.model.dtype != "float32":
        changes.append(change(config, "model.dtype", "float32", "a larger range of numbers"))
    yield Finding(
        "stability",
        "updates_not_finite",
        f"{count:.0f} updates had a loss or gradient that is no number and were skipped; their "
        f"rows are in {history.folder.bad_batches}.",
        (Evidence("train/skipped_steps", count, bad[0].step, bad[-1].step),),
        tuple(changes),
    )


def _two_policies(history: History) -> Iterator[Finding]:
    """Find a sampler that does not compute what the trainer does."""
    apart = middle(history.recent, "policy/logprob_diff")
    if apart is None or apart <= _DIFFERENCE:
        return
    config, changes = history.config, []
    if config.model.dtype != "float32":
        text = "rounding grows with the length of a product; float32 has 16 more bits"
        changes.append(change(config, "model.dtype", "float32", text))
    so = ": every ratio is off by as much."
    if config.rollout.engine != "hf" and config.rollout.mismatch_cap is None:
        text = "weighs fresh tokens by trainer / sampler"
        changes.append(change(config, "rollout.mismatch_cap", 2.0, text))
    elif config.rollout.engine != "hf":
        so = ". rollout.mismatch_cap weighs for it; rounding alone is seldom as large."
    yield Finding(
        "stability",
        "sampler_and_trainer_differ",
        f"Before any update, trainer and sampler differ by {apart:.3g} nats a token on the same "
        f"tokens{so}",
        (of_steps("policy/logprob_diff, median", apart, history.recent),),
        tuple(changes),
    )


def _entropy(history: History) -> Iterator[Finding]:
    if len(history.steps) < 2 * _WINDOW:
        return
    before, now = middle(history.early, "policy/entropy"), middle(history.recent, "policy/entropy")
    success = middle(history.recent, "reward/success") or 0.0
    if before is None or now is None or now >= _COLLAPSED * before or success >= 0.9:
        return
    config = history.config
    changes = [_halved(config, "the policy settles later")]
    if config.algo.clip_high is not None and config.algo.clip_high < 0.28:
        text = "rare tokens may grow further (DAPO)"
        changes.append(change(config, "algo.clip_high", 0.28, text))
    if not config.algo.kl_coef:
        text = "holds the policy near where it began"
        changes.append(change(config, "algo.kl_coef", 0.01, text))
    yield Finding(
        "stability",
        "entropy_collapsed",
        f"The policy no longer explores: entropy {now:.3g} nats a token, {before:.3g} at first, "
        f"while {100 * success:.0f} % of rollouts succeed.",
        (
            of_steps("policy/entropy, median", before, history.early),
            of_steps("policy/entropy, median", now, history.recent),
        ),
        tuple(changes),
    )


def _fallen(history: History) -> Iterator[Finding]:
    """Find success that was there and is gone: intervals of best and last that do not touch."""
    scores = _evaluated(history) or _trained(history.steps)
    if len(scores) < 2:
        return
    best = max(scores[:-1], key=lambda each: each[1].success or 0.0)
    last = scores[-1]
    low, high = best[1].interval(), last[1].interval()
    if low is None or high is None or high[1] >= low[0]:
        return
    config = history.config
    changes = [_halved(config, "what was learnt is unlearnt more slowly")]
    if config.replay.modes:
        changes += _younger(config, history.snapshot)[:2]
    evaluated = bool(_evaluated(history))
    name = "eval/success" if evaluated else f"reward/success over {_WINDOW} steps"
    yield Finding(
        "stability",
        "success_fell",
        f"{'Held-out success' if evaluated else 'Success'} fell from "
        f"{100 * (best[1].success or 0):.0f} % (step {best[0]}) to "
        f"{100 * (last[1].success or 0):.0f} % (step {last[0]}), more than chance explains.",
        (
            Evidence(f"{name}, best", best[1].success or 0.0, best[0]),
            Evidence(f"{name}, last", last[1].success or 0.0, last[0]),
        ),
        tuple(changes),
    )


def _evaluated(history: History) -> list[tuple[int, Score]]:
    """Give the evaluations of the split that was evaluated first."""
    if len(history.evaluations) < 2:
        return []
    split = history.evaluations[0].split
    return [(each.step, pool(each.scores)) for each in history.evaluations if each.split == split]


def _trained(lines: Sequence[StepLine]) -> list[tuple[int, Score]]:
    """Pool the fresh rows of every few steps, as if they were an evaluation."""
    found = []
    for start in range(len(lines) % _WINDOW, len(lines), _WINDOW):
        part = lines[start : start + _WINDOW]
        rows = [
            (line.metrics.get("rollout/rows", 0.0), line.metrics.get("reward/success", 0.0))
            for line in part
        ]
        n = round(sum(count for count, _ in rows))
        wins = round(sum(count * rate for count, rate in rows if math.isfinite(rate)))
        found.append((part[-1].step, Score("fresh", None, n, min(wins, n))))
    return found


def _halved(config: Config, why: str) -> Change:
    rate = config.train.learning_rate
    return change(config, "train.learning_rate", _two_digits(rate / 2), why)


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")
