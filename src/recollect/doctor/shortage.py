"""Replay that does less than it was asked to: not begun, a pool that runs dry, rows left out.

A replay ratio (rows trained over rows generated) that is lower than the settings ask for has a
cause that can be counted: the start triggers, the rules that keep rows out, the pool's budget, or
rows that were drawn and left out. Each is a finding of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.doctor.finding import Change, Evidence, Finding, change
from recollect.doctor.history import History, of_steps, total, values
from recollect.doctor.snapshot import KeptOut, Snapshot
from recollect.replay.settings import replay_policy
from recollect.store.records import Provenance
from recollect.telemetry.reading import StepLine

_LOW = 1.5  # replay ratio below which seed 003 speaks of trouble
_LATE = 1 / 3  # of the steps done before replay began
_DRY = 0.8  # share of the asked rows that were drawn
_LEFT_OUT = 0.3  # share of the drawn rows that no update applied
_BUDGET = "beyond the pool's budget"
_PER_TASK = "more than pool.rows_per_task"


@dataclass(frozen=True, slots=True)
class Asked:
    """Rows of a step that the settings ask for: generated, and stored ones beside them.

    `mixed` and `buffered` are what a pool that never runs dry would give. Repair is not counted:
    how many groups need it is not known beforehand.
    """

    generated: float
    mixed: float
    buffered: float

    @property
    def drawn(self) -> float:
        """Stored rows of a step."""
        return self.mixed + self.buffered

    @property
    def ratio(self) -> float:
        """Replay ratio if every row carried signal and nothing were missing."""
        return (self.generated + self.drawn) / self.generated


def asked_of(config: Config) -> Asked:
    """Read from a configuration how much it wants replayed."""
    amounts, rows = replay_policy(config, Provenance("", "", "")).amounts, config.rows_per_step
    trains = config.replay.participation == "train"
    share = amounts.mix_ratio * amounts.mix_rows / config.rollout.rows_per_task if trains else 0.0
    buffered = float(amounts.buffer_updates * amounts.buffer_rows)
    if amounts.buffer_updates and amounts.buffer_share is not None:
        buffered = amounts.buffer_share * amounts.step_rows
    return Asked(rows * (1 - share), rows * share, buffered)


def replay_findings(history: History) -> Iterator[Finding]:
    """Yield what keeps replay from doing what was asked; nothing where it is off."""
    config = history.config
    if not config.replay.modes or config.replay.participation == "off":
        return
    drew = [line for line in history.steps if line.metrics.get("replay/draws", 0) > 0]
    if not drew:
        yield from _never_began(history)
        return
    since = [line for line in history.steps if line.step >= drew[0].step]
    yield from _began_late(history, since)
    asked = asked_of(config)
    if asked.drawn:
        yield from _ran_dry(history, asked, since)
    if "buffer" in config.replay.modes and asked.ratio < _LOW:
        yield _asked_little(history, asked, since)
    yield from _left_out(history, since)


def _never_began(history: History) -> Iterator[Finding]:
    """Name the trigger that was never met; where all were, the pool had nothing to give."""
    lines, replay = history.steps, history.config.replay
    changes = _trigger_changes(history)
    # The pool is empty in the first step, whatever was set, and the second is no pattern.
    if len(lines) < (2 if changes else 3):
        return
    pool = max(values(lines, "replay/pool_rows"), default=0.0)
    best = max(values(lines, "reward/success"), default=0.0)
    evidence = [
        of_steps("replay/draws, in all", 0.0, lines),
        of_steps("replay/pool_rows, most", pool, lines),
        of_steps("reward/success, most in a step", best, lines),
    ]
    why = ": " + ", ".join(f"{c.setting} = {c.now}" for c in changes) if changes else ""
    if not changes:
        why = ": nothing in the pool could be drawn"
        modes: list[Json] = [*replay.modes]
        evidence += _counts(history.snapshot)
        changes = _rule_changes(history, 1)
        if "buffer" not in modes and not best:
            why = ": mix and repair draw successes, and there were none"
            text = "a buffer learns from failures too"
            changes = [change(history.config, "replay.modes", [*modes, "buffer"], text)]
    yield Finding(
        "replay",
        "replay_never_began",
        f"Replay never began in {len(lines)} steps{why}.",
        tuple(evidence),
        tuple(changes),
    )


def _trigger_changes(history: History) -> list[Change]:
    """List the start triggers that were not met, each with a value that would have been."""
    config, lines, changes = history.config, history.steps, []
    replay, done = config.replay, history.done
    pool = max(values(lines, "replay/pool_rows"), default=0.0)
    if pool < replay.start_rows:
        to = max(1, min(replay.start_rows - 1, 2 * config.rows_per_step))
        text = f"the pool had {pool:g} rows at most; two steps give {2 * config.rows_per_step}"
        changes.append(change(config, "replay.start_rows", to, text))
    best = max(values(lines, "reward/success"), default=0.0)
    if replay.start_success is not None and best < replay.start_success:
        lower = math.floor(50 * best) / 100 or None  # half of it: one good step is luck
        text = f"no step had more than {best:.2f} successes"
        changes.append(change(config, "replay.start_success", lower, text))
    if replay.start_progress is not None and (done - 1) / config.run.steps < replay.start_progress:
        text = f"{done} of {config.run.steps} steps are done"
        changes.append(change(config, "replay.start_progress", None, text))
    return [each for each in changes if each.to != each.now]


def _began_late(history: History, since: list[StepLine]) -> Iterator[Finding]:
    first, steps = since[0].step, history.config.run.steps
    triggers = history.config.replay
    if (first - 1) / steps <= _LATE or triggers.start_progress is not None:
        return  # in time, or as late as it was told to
    before = [line for line in history.steps if line.step < first]
    changes = []
    if triggers.start_rows > 2 * history.config.rows_per_step:
        text = f"two steps give {2 * history.config.rows_per_step} rows"
        to = 2 * history.config.rows_per_step
        changes.append(change(history.config, "replay.start_rows", to, text))
    if triggers.start_success is not None:
        changes.append(
            change(history.config, "replay.start_success", None, "waits for no success rate")
        )
    if changes and before:
        yield Finding(
            "replay",
            "replay_began_late",
            f"Replay began in step {first} of {steps}.",
            (
                Evidence("first step with draws", float(first)),
                of_steps("replay/pool_rows before it", _last(before, "replay/pool_rows"), before),
                of_steps("reward/success before it", _last(before, "reward/success"), before),
            ),
            tuple(changes),
        )


def _ran_dry(history: History, asked: Asked, since: list[StepLine]) -> Iterator[Finding]:
    """Compare draws with what was asked for, lately: at first every pool is small."""
    lines = [line for line in history.recent if line.step > since[0].step + 1]
    if not lines:
        return
    drawn = total(lines, "replay/draws") - _extra(lines)
    # Where a controller lets less through, less was wanted.
    wanted = asked.drawn * sum(line.metrics.get("replay/level", 1.0) for line in lines)
    if drawn >= _DRY * wanted:
        return
    changes = _rule_changes(history, math.ceil(asked.drawn))
    yield Finding(
        "replay",
        "pool_runs_dry",
        f"Replay ratio {_ratio(since):.2f}, asked for {asked.ratio:.2f}: of {asked.drawn:.0f} "
        f"stored rows a step, {drawn / len(lines):.1f} could be drawn.",
        (
            of_steps("replay/draws a step", drawn / len(lines), lines),
            of_steps("asked for a step", asked.drawn, lines),
            *_counts(history.snapshot),
        ),
        tuple(changes),
    )


def _extra(lines: list[StepLine]) -> float:
    """Rows that repair drew: groups that it mended, at least; they were not asked for."""
    return total(lines, "replay/repaired")


def _counts(snapshot: Snapshot | None) -> list[Evidence]:
    """Say what the pool holds now and what keeps rows out of it."""
    if snapshot is None:
        return []
    step = snapshot.step
    found = [
        Evidence("rows in the pool now", float(snapshot.rows), step),
        Evidence("of them could be drawn next", float(snapshot.wanted), step),
    ]
    found += [
        Evidence(f"kept out by {setting} alone", float(kept.rows), step)
        for setting, kept in snapshot.kept_out.items()
    ]
    if snapshot.evicted:
        found.append(Evidence("evicted from the pool", float(snapshot.evicted), step))
    return found


def _rule_changes(history: History, wanted: int) -> list[Change]:
    """Turn what keeps rows out, most first, into settings; `wanted` rows are asked for a step."""
    snapshot, config = history.snapshot, history.config
    if snapshot is None:
        return []
    missing = max(1, 2 * wanted - snapshot.wanted)
    kept = sorted(snapshot.kept_out.items(), key=lambda item: -item[1].rows)
    found = [_lifted(config, setting, rows, missing) for setting, rows in kept]
    evicted = snapshot.reasons
    if evicted.get(_BUDGET):
        for setting in ("max_rows", "max_bytes"):
            limit = getattr(config.pool, setting)
            if limit is not None:
                text = f"{snapshot.evicted:,} rows were evicted to keep to it"
                found.append(change(config, f"pool.{setting}", 2 * limit, text))
    if evicted.get(_PER_TASK) and config.pool.rows_per_task is not None:
        text = f"{evicted[_PER_TASK]} of the newest evicted rows were beyond it"
        found.append(change(config, "pool.rows_per_task", 2 * config.pool.rows_per_task, text))
    if not found:
        text = "the pool holds no more that could be drawn"
        found = _less(config, text)
    return found


def _lifted(config: Config, setting: str, kept: KeptOut, missing: int) -> Change:
    """Loosen one rule just so far that the missing rows come in, or all that it keeps out."""
    text = f"it alone keeps {kept.rows:,} rows out"
    if setting == "pool.max_age":
        nearest = sorted(kept.ages.tolist())[: max(1, missing)]
        return change(config, setting, int(nearest[-1]), text)
    if setting == "pool.max_uses":
        now = config.pool.max_uses or 1
        return change(config, setting, max(now + 1, 2 * now), text)
    if setting == "pool.cooldown":
        return change(config, setting, config.pool.cooldown // 2, text)
    if setting == "pool.max_ratio" and config.pool.max_ratio is None:
        return change(config, "correction.drop_above", None, text)
    if setting == "replay.retire":
        text = f"{kept.rows:,} rows belong to tasks at rest"
        return change(config, "replay.retest_steps", max(1, config.replay.retest_steps // 2), text)
    return change(config, setting, None, text)


def _less(config: Config, text: str) -> list[Change]:
    """Ask for less where there is no more to be had."""
    if "buffer" in config.replay.modes and config.replay.buffer_updates > 1:
        to = config.replay.buffer_updates // 2
        return [change(config, "replay.buffer_updates", to, text)]
    if "mix" in config.replay.modes:
        return [change(config, "replay.mix_ratio", config.replay.mix_ratio / 2, text)]
    return []


def _asked_little(history: History, asked: Asked, since: list[StepLine]) -> Finding:
    config = history.config
    each = asked.buffered / config.replay.buffer_updates
    updates = math.ceil((_LOW - 1) * asked.generated / each)
    more = change(
        config,
        "replay.buffer_updates",
        updates,
        f"{updates} updates of {each:.0f} rows beside {asked.generated:.0f} fresh ones",
    )
    if config.replay.buffer_share is not None:
        more = change(config, "replay.buffer_share", _LOW - 1, "stored rows for each fresh one")
    elif config.replay.buffer_place == "among":
        rows = math.ceil((_LOW - 1) * asked.generated / config.train.minibatches)
        more = change(config, "replay.buffer_rows", rows, "stored rows in each update")
    return Finding(
        "replay",
        "little_is_asked_for",
        f"The settings ask for a replay ratio of {asked.ratio:.2f} at most; below {_LOW} a buffer "
        "saves little.",
        (
            of_steps("rows trained / generated since replay began", _ratio(since), since),
            of_steps("stored rows asked for a step", asked.drawn, since),
        ),
        (more,),
    )


def _left_out(history: History, since: list[StepLine]) -> Iterator[Finding]:
    """Find rows that were drawn for nothing: drifted too far, or in a group without signal."""
    drawn, dropped = total(since, "replay/draws"), total(since, "replay/dropped")
    if history.config.replay.participation != "train" or dropped <= _LEFT_OUT * drawn:
        return
    config, changes = history.config, []
    if config.correction.drop_above is not None:
        text = "rows above it are left out; younger rows have drifted less"
        changes.append(
            change(config, "correction.drop_above", 2 * config.correction.drop_above, text)
        )
        if config.pool.max_age is not None and config.pool.max_age > 1:
            changes.append(change(config, "pool.max_age", config.pool.max_age // 2, text))
    elif "mix" in config.replay.modes and not config.replay.retire:
        text = "stored rows join groups that are solved already: let solved tasks rest"
        changes.append(change(config, "replay.retire", True, text))
    yield Finding(
        "replay",
        "drawn_rows_left_out",
        f"{dropped:.0f} of {drawn:.0f} drawn rows were left out of the update: drifted, or in a "
        "group without signal.",
        (
            of_steps("replay/draws", drawn, since),
            of_steps("replay/dropped", dropped, since),
        ),
        tuple(changes),
    )


def _ratio(lines: list[StepLine]) -> float:
    generated = total(lines, "rollout/rows")
    return total(lines, "train/rows") / generated if generated else math.nan


def _last(lines: list[StepLine], name: str) -> float:
    return lines[-1].metrics.get(name, math.nan)
