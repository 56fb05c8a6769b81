"""Rules that span sections: replay that could never start, what a critic needs, what does nothing.

Each takes a whole configuration and raises the conflict it finds, with the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.config.schema.pool import within
from recollect.config.schema.section import conflict

if TYPE_CHECKING:
    from recollect.config.schema.config import Config

_MOST_TRIED = 256  # rows of a group for which bounds are tried out: all pairs of counts are


def check_start(config: Config) -> None:
    """Refuse replay that waits for more rows than the run will ever have stored."""
    wanted, replay = config.replay.start_rows, config.replay
    # A store that others write to, or have written to, holds nobody knows how many.
    shared = config.pool.start_from is not None or config.store.path is not None
    if not replay.modes or shared:
        return
    steps, each = config.run.steps, config.rows_per_step
    most = (steps - 1) * each
    if wanted > max(most, 1):
        needed = 1 + -(-wanted // each)
        raise conflict(
            "replay.start_rows",
            "run.steps",
            "rollout.tasks_per_step",
            "rollout.rows_per_task",
            what=f"replay would never start: it waits for replay.start_rows = {wanted} stored "
            f"rows, and when the last of run.steps = {steps} steps begins there are at most "
            f"({steps} - 1) x rollout.tasks_per_step = {config.rollout.tasks_per_step} x "
            f"rollout.rows_per_task = {config.rollout.rows_per_task}, that is {most}",
            change=f"Set replay.start_rows to {most} or less, or run.steps to {needed} or more.",
        )
    capacity = config.pool.max_rows
    if capacity is not None and wanted > max(capacity, each):
        raise conflict(
            "replay.start_rows",
            "pool.max_rows",
            what=f"replay would never start: it waits for replay.start_rows = {wanted} stored "
            f"rows, and pool.max_rows = {capacity} are kept",
            change=f"Set replay.start_rows to {capacity} or less, or raise pool.max_rows.",
        )


def check_progress(config: Config) -> None:
    """Refuse replay that waits for more progress than there is before the last step."""
    wanted, steps = config.replay.start_progress, config.run.steps
    if not config.replay.modes or wanted is None or steps == 1:
        return
    if wanted > (steps - 1) / steps:
        raise conflict(
            "replay.start_progress",
            "run.steps",
            what=f"replay would never start: it waits until replay.start_progress = {wanted:g} of "
            f"the steps are done, and before the last of run.steps = {steps} there are "
            f"{(steps - 1) / steps:.3g}",
            change="Lower replay.start_progress, or replay nothing with replay.modes=[].",
        )


def check_age(config: Config) -> None:
    """Refuse an age limit that is over before a row can be drawn for the first time."""
    limit, replay = config.pool.max_age, config.replay
    updates = config.train.epochs * config.train.minibatches
    if replay.modes and config.algo.advantage == "gae" and limit is not None and limit < updates:
        raise conflict(
            "pool.max_age",
            "train.epochs",
            "train.minibatches",
            what=f"no stored row would ever be young enough: a step makes train.epochs = "
            f"{config.train.epochs} x train.minibatches = {config.train.minibatches}, that is "
            f"{updates} updates, and pool.max_age = {limit} updates",
            change=f"Set pool.max_age to {updates} or more, or make fewer updates a step.",
        )


def check_bounds(config: Config) -> None:
    """Refuse bounds that no group of the run's can be within."""
    pool, replay, rows = config.pool, config.replay, config.rollout.rows_per_task
    shared = pool.start_from is not None or config.store.path is not None
    unbounded = pool.lower is None and pool.upper is None
    if not replay.modes or shared or unbounded or rows > _MOST_TRIED:
        return
    # Of a group that failed altogether nothing is kept, or nothing is drawn.
    needs_success = "buffer" not in replay.modes or pool.keep == "successes"
    found = (
        (wins / size if pool.bounds == "rate" else float(wins))
        for size in range(1, rows + 1)  # attempts may fail, and mixed groups have fewer fresh rows
        for wins in range(int(needs_success), size + 1)
    )
    if any(within(each, pool.lower, pool.upper, pool.bounds_inclusive) for each in found):
        return
    which = "with a success " if needs_success else ""
    lower, upper = ("none" if b is None else f"{b:g}" for b in (pool.lower, pool.upper))
    raise conflict(
        "pool.lower",
        "pool.upper",
        "pool.bounds",
        "rollout.rows_per_task",
        what=f"nothing would ever be replayed: no group of up to rollout.rows_per_task = {rows} "
        f"rows {which}has {pool.bounds} between pool.lower = {lower} and pool.upper = {upper}",
        change="Lower pool.lower or raise pool.upper"
        + ("." if pool.bounds_inclusive else ", or set pool.bounds_inclusive=true."),
    )


def check_critic(config: Config) -> None:
    """Refuse what only a critic could do where there is none, and what a critic makes void."""
    has_critic, replay = config.algo.advantage == "gae", config.replay
    if config.draw.priority == "td_error" and not has_critic:
        raise conflict(
            "draw.priority",
            "algo.advantage",
            what=f"draw.priority = td_error needs a critic, and {config.algo.advantage} has none",
            change="Set algo.advantage=gae, or draw.priority=advantage.",
        )
    if has_critic and replay.participation == "baseline":
        raise conflict(
            "replay.participation",
            "algo.advantage",
            what="with algo.advantage = gae there is no group mean that replay.participation = "
            "baseline could shift",
            change="Set replay.participation=train.",
        )
    keeps = has_critic and bool(replay.modes) and config.critic.at_use == "stored"
    if keeps and config.pool.max_age is None:
        raise conflict(
            "critic.at_use",
            "pool.max_age",
            what="critic.at_use = stored keeps the values of every token until its row is too "
            "old, and pool.max_age = none never is",
            change="Set pool.max_age, or critic.at_use=recomputed.",
        )


def check_adaptation(config: Config) -> None:
    """Refuse a capacity that is to grow to no limit at all, and rules that have nothing to move."""
    adapt, replay = config.adapt, config.replay
    if adapt.early_rows is not None and config.pool.max_rows is None:
        raise conflict(
            "adapt.early_rows",
            "pool.max_rows",
            what=f"adapt.early_rows = {adapt.early_rows} grows to pool.max_rows, which is none",
            change="Set pool.max_rows, or adapt.early_rows=none.",
        )
    if adapt.early_rows is not None and not replay.on:
        raise conflict(
            "adapt.early_rows",
            "replay.modes",
            what=f"adapt.early_rows = {adapt.early_rows} does nothing: without replay no row "
            "leaves the pool",
            change="Set replay.modes, for example to [buffer], or adapt.early_rows=none.",
        )
    measuring = "adapt.controller" if adapt.controller else "adapt.uses"
    rows_train = bool(replay.modes) and replay.participation == "train"
    if (adapt.controller or adapt.uses == "kl") and not rows_train:
        shown = "true" if adapt.controller else "kl"
        off = "false" if adapt.controller else "fixed"
        raise conflict(
            measuring,
            "replay.modes",
            "replay.participation",
            what=f"{measuring} = {shown} goes by what stored rows show when they train, and none "
            f"would: replay.modes = [{', '.join(replay.modes)}], replay.participation = "
            f"{replay.participation}",
            change=f"Let stored rows train, for example by replay.modes=[buffer]; or set "
            f"{measuring}={off}.",
        )


def check_void(config: Config) -> None:
    """Refuse what would silently do nothing."""
    replay, rows = config.replay, config.rollout.rows_per_task
    if config.pool.start_from is not None and not replay.modes:
        raise conflict(
            "pool.start_from",
            "replay.modes",
            what="pool.start_from gives rows to replay, and replay.modes = [] replays none",
            change="Set replay.modes, for example to [buffer], or pool.start_from=none.",
        )
    if replay.participation != "train" and not replay.modes:
        raise conflict(
            "replay.participation",
            "replay.modes",
            what=f"replay.participation = {replay.participation} says what mixed rows do, and with "
            "replay.modes = [] there are none",
            change="Set replay.modes=[mix], or replay.participation=train.",
        )
    if replay.participation == "baseline" and config.algo.advantage == "reward":
        raise conflict(
            "replay.participation",
            "algo.advantage",
            what="with algo.advantage = reward there is no group mean that replay.participation = "
            "baseline could shift",
            change="Set replay.participation=train, or another algo.advantage.",
        )
    if replay.retire and replay.retire_rows is not None and replay.retire_rows > rows:
        raise conflict(
            "replay.retire_rows",
            "rollout.rows_per_task",
            what=f"no task would ever retire: replay.retire_rows = {replay.retire_rows}, and a "
            f"group has rollout.rows_per_task = {rows} rows",
            change=f"Set replay.retire_rows to {rows} or less.",
        )
