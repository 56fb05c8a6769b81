"""A reward that does not grow, and what may hold it: no signal, rollouts that are cut or lost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from statistics import fmean, variance

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.doctor.finding import Change, Evidence, Finding, change
from recollect.doctor.history import History, middle, of_steps, values
from recollect.telemetry.scores import pool
from recollect.types import StopReason

FEWEST = 9  # steps before a flat curve says anything
_DEAD = 0.6  # share of groups without signal
_CUT = 0.4  # share of rollouts cut by a limit
_SOLVED = 0.95  # success at which there is little left to gain


def learning_findings(history: History) -> Iterator[Finding]:
    """Yield what keeps the run from learning."""
    yield from _flat(history)
    yield from _dead_groups(history)
    yield from _cut_off(history)
    yield from _failed(history)
    yield from _pushed(history)


def _flat(history: History) -> Iterator[Finding]:
    """Compare the first third with the last: less than two standard errors apart is flat."""
    if len(history.steps) < FEWEST:
        return
    before, now = values(history.early, "reward/mean"), values(history.recent, "reward/mean")
    success = middle(history.recent, "reward/success") or 0.0
    if len(before) < 2 or len(now) < 2 or success >= _SOLVED:
        return
    error = math.sqrt(variance(before) / len(before) + variance(now) / len(now))
    gain = fmean(now) - fmean(before)
    if gain > 2 * error or _learnt(history):
        return
    dead, norm = _mean(history, "reward/dead_groups"), middle(history.recent, "train/grad_norm")
    yield Finding(
        "learning",
        "reward_is_flat",
        f"The reward does not grow: {fmean(before):.3f} in the first third, {fmean(now):.3f} in "
        f"the last, {gain:+.3f} with a standard error of {error:.3f}.",
        (
            of_steps("reward/mean, mean", fmean(before), history.early),
            of_steps("reward/mean, mean", fmean(now), history.recent),
            of_steps("reward/dead_groups, mean", dead, history.recent),
            of_steps("train/grad_norm, median", norm or 0.0, history.recent),
        ),
        tuple(_first_checks(history)),
    )


def _learnt(history: History) -> bool:
    """Tell whether held-out success rose beyond chance since the first third of the run."""
    if len(history.evaluations) < 2:
        return False
    base, *others = history.evaluations
    for each in others:
        if each.step <= history.early[-1].step:
            base = each
    first, last = (pool(each.scores).interval() for each in (base, history.evaluations[-1]))
    return first is not None and last is not None and last[0] > first[1]


def _first_checks(history: History) -> list[Change]:
    """Seed 003's order: first see that it learns without replay, then more signal, then speed."""
    config, found = history.config, []
    if config.replay.modes:
        nothing: list[Json] = []
        text = "see whether it learns without replay first"
        found.append(change(config, "replay.modes", nothing, text))
    rate = float(f"{2 * config.train.learning_rate:.2g}")
    ess, kl = middle(history.recent, "replay/ess"), middle(history.recent, "policy/kl")
    calm = (ess is None or ess > 0.7) and (kl is None or kl < 0.01)
    if calm and _mean(history, "reward/dead_groups") < _DEAD:
        found.append(change(config, "train.learning_rate", rate, "there is signal: use more of it"))
    return found


def _dead_groups(history: History) -> Iterator[Finding]:
    """Find groups whose rewards are all the same, and tell failed ones from solved ones."""
    dead = _mean(history, "reward/dead_groups")
    if not dead > _DEAD:
        return
    lines, snapshot = history.recent, history.snapshot
    evidence = [of_steps("reward/dead_groups, mean", dead, lines)]
    success, one_sided = _mean(history, "reward/success"), True
    too_hard, what = success < 0.5, "most rollouts fail" if success < 0.5 else "most succeed"
    if snapshot is not None and snapshot.failed + snapshot.solved:
        too_hard = snapshot.failed >= snapshot.solved
        one_sided = snapshot.solved > 2 * snapshot.failed
        what = f"of {snapshot.tasks} tasks {snapshot.failed} had no success, {snapshot.solved} "
        what += "nothing else"
        evidence += [
            Evidence("tasks whose last group had no success", float(snapshot.failed)),
            Evidence("tasks whose last group was solved", float(snapshot.solved)),
        ]
    yield Finding(
        "learning",
        "groups_without_signal",
        f"{100 * dead:.0f} % of the groups carry no signal: {what}.",
        tuple(evidence),
        tuple(_for_hard_tasks(history) if too_hard else _for_solved_tasks(history, one_sided)),
    )


def _for_hard_tasks(history: History) -> list[Change]:
    config, found = history.config, []
    modes: list[Json] = [*config.replay.modes]
    if "repair" not in modes and config.replay.participation == "train":
        text = "a group without a success gets a stored one, where the task was ever solved"
        found.append(change(config, "replay.modes", [*modes, "repair"], text))
    rows = 2 * config.rollout.rows_per_task
    if rows <= config.rollout.batch_rows:
        text = "a rare success is likelier in a larger group"
        found.append(change(config, "rollout.rows_per_task", rows, text))
    levels = config.environment.levels or (history.snapshot.levels if history.snapshot else ())
    if len(levels) > 1:  # an environment need not have any
        easiest: list[Json] = [min(levels)]
        found.append(change(config, "environment.levels", easiest, "begin with easier tasks"))
    return found


def _for_solved_tasks(history: History, most: bool) -> list[Change]:
    """`most`: hardly anything else is among them, so nothing is lost with harder ones."""
    config, found = history.config, []
    if not config.replay.retire:
        text = "solved tasks rest, others take their place"
        found.append(change(config, "replay.retire", True, text))
    levels = config.environment.levels
    if levels and most:
        harder: list[Json] = [*levels, max(levels) + 1]
        text = "there is little left to learn; if there is such a level"
        found.append(change(config, "environment.levels", harder, text))
    return found


def _cut_off(history: History) -> Iterator[Finding]:
    cut = _mean(history, "rollout/truncated")
    if not cut > _CUT:
        return
    config, length = history.config, middle(history.recent, "rollout/length") or 0.0
    turns = middle(history.recent, "rollout/turns") or 0.0
    stops = history.snapshot.stops if history.snapshot is not None else {}
    yield Finding(
        "learning",
        "rollouts_are_cut",
        f"{100 * cut:.0f} % of the rollouts are cut by a limit before they end.",
        (
            of_steps("rollout/truncated, mean", cut, history.recent),
            of_steps("rollout/length, median", length, history.recent),
            of_steps("rollout/turns, median", turns, history.recent),
            *(
                Evidence(f"of the newest {sum(stops.values())} ended by {name}", float(count))
                for name, count in stops.items()
            ),
        ),
        tuple(_longer(config, stops, turns)),
    )


def _longer(config: Config, stops: Mapping[str, int], turns: float) -> list[Change]:
    """Loosen the limits that the newest rollouts met, the commonest first.

    Where rollouts are far from our limit of turns, it was the environment's own that they met.
    """
    limits, found = config.rollout, list[Change]()
    for name, count in stops.items():
        text = f"{count} of the newest {sum(stops.values())} rollouts met it"
        if name == StopReason.TURN_LIMIT and turns > limits.max_turns / 2:
            found.append(change(config, "rollout.max_turns", 2 * limits.max_turns, text))
        elif name == StopReason.TIME_LIMIT:
            seconds = 2 * limits.episode_seconds
            found.append(change(config, "rollout.episode_seconds", seconds, text))
        elif name == StopReason.TOKEN_LIMIT:
            tokens = min(2 * limits.max_turn_tokens, limits.max_tokens)
            if tokens > limits.max_turn_tokens:
                found.append(change(config, "rollout.max_turn_tokens", tokens, text))
            else:
                longer = 2 * limits.max_tokens
                found.append(change(config, "rollout.max_tokens", longer, text))
                if longer > config.train.pack_tokens:
                    why = "a trajectory must fit into a pack"
                    found.append(change(config, "train.pack_tokens", longer, why))
    return found


def _failed(history: History) -> Iterator[Finding]:
    """Find episodes that the environment lost: one in twenty is no accident."""
    failed = sum(values(history.steps, "rollout/failed"))
    rows = sum(values(history.steps, "rollout/rows"))
    if failed <= 0.05 * (failed + rows):
        return
    config, slow = history.config, 2 * history.config.rollout.call_seconds
    store = shlex.quote(str(history.folder.store(config)))
    yield Finding(
        "health",
        "episodes_fail",
        f"{failed:.0f} of {failed + rows:.0f} episodes failed in the environment and never "
        f'trained. Why: recollect pool sql --store {store} "SELECT data FROM events WHERE kind = '
        "'episode_failed'\"",
        (of_steps("rollout/failed, in all", failed, history.steps),),
        (
            change(config, "rollout.call_seconds", slow, "if they ran out of time"),
            change(
                config,
                "rollout.episode_seconds",
                max(2 * config.rollout.episode_seconds, slow),
                "likewise",
            ),
        ),
    )


def _pushed(history: History) -> Iterator[Finding]:
    """Find fresh rows that are pushed down by rows which only shift their mean."""
    push = _mean(history, "replay/push")
    if history.config.replay.participation != "baseline" or not push < 0:
        return
    yield Finding(
        "learning",
        "fresh_rows_are_pushed_down",
        f"Stored rows only shift the mean of their groups: the advantages of fresh rows sum to "
        f"{push:.2f} a step instead of 0, so all they did is made less likely.",
        (of_steps("replay/push, mean", push, history.recent),),
        (change(history.config, "replay.participation", "train", "they then carry gradient"),),
    )


def _mean(history: History, name: str) -> float:
    found = values(history.recent, name)
    return fmean(found) if found else math.nan
