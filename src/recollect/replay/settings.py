"""The rules of replay, read from a configuration."""

from __future__ import annotations

from recollect.config.schema.config import Config
from recollect.replay.adaptation import Adaptation, Capacity, Limits, UseRule
from recollect.replay.book import Retirement
from recollect.replay.controller import Controller, Targets
from recollect.replay.eligibility import Rules
from recollect.replay.eviction import Keeping
from recollect.replay.policy import Amounts, Budget, Policy
from recollect.replay.simulation import Pace
from recollect.replay.starting import Triggers
from recollect.replay.weights import Priority, Weighing
from recollect.store.records import Provenance


def retirement(config: Config) -> Retirement:
    """When tasks retire."""
    replay = config.replay
    rows = replay.retire_rows or config.rollout.rows_per_task
    return Retirement(replay.retire, rows, replay.retest_steps)


def triggers(config: Config) -> Triggers:
    """When replay begins."""
    replay = config.replay
    return Triggers(replay.start_rows, replay.start_success, replay.start_progress)


def replay_policy(config: Config, fingerprints: Provenance) -> Policy:
    """Read the rules of replay from a configuration."""
    pool, draw, replay = config.pool, config.draw, config.replay
    recorded = config.correction.old_logprobs == "recorded"
    credited = config.algo.advantage == "gae"
    return Policy(
        rules=Rules(
            fingerprints,
            max_age=pool.max_age,
            max_uses=pool.max_uses,
            cooldown=pool.cooldown,
            min_ess=pool.min_ess,
            max_ratio=_smaller(pool.max_ratio, config.correction.drop_above),
            needs_logprobs=recorded,
        ),
        weighing=Weighing(
            _weighed_by(config),
            draw.alpha,
            draw.half_life,
            draw.buckets,
            draw.bucket_center,
            draw.bucket_sigma,
            draw.floor,
        ),
        amounts=Amounts(
            mix_ratio=replay.mix_ratio if "mix" in replay.modes else 0.0,
            mix_rows=replay.mix_rows,
            trains=replay.participation != "off",
            repair_rows=replay.repair_rows if "repair" in replay.modes else 0,
            buffer_updates=_buffer_updates(config),
            buffer_rows=replay.buffer_rows or config.rows_per_step // config.train.minibatches,
            buffer_share=replay.buffer_share,
            step_rows=config.rows_per_step,
            max_per_task=draw.max_per_task,
            max_domain_share=draw.max_domain_share,
            domains_alike=draw.domains == "alike",
            beta=draw.beta,
            beta_growth=draw.beta_growth,
            weight_scale=draw.weight_scale,
            needs_advantage=not credited,
        ),
        keeping=Keeping(
            pool.lower,
            pool.upper,
            as_rate=pool.bounds == "rate",
            inclusive=pool.bounds_inclusive,
            successes_only=pool.keep == "successes",
        ),
        budget=Budget(pool.rows_per_task, pool.max_rows, pool.max_bytes),
    )


def adaptation(config: Config) -> Adaptation | None:
    """Make the rules that move the limits; None where all are off."""
    adapt, pool = config.adapt, config.pool
    if not adapt.on:
        return None
    early = None if adapt.early_rows is None else Capacity(adapt.early_rows, adapt.early_until)
    uses = UseRule(adapt.kl_low, adapt.kl_high, adapt.calm_uses, adapt.moving_uses, adapt.memory)
    targets = Targets(adapt.target_ess, adapt.target_kl, adapt.memory, adapt.rest_steps)
    return Adaptation(
        Limits(pool.max_age, pool.max_uses, pool.max_rows),
        early,
        uses if adapt.uses == "kl" else None,
        Controller(targets) if adapt.controller else None,
    )


def pace(config: Config) -> Pace:
    """How many optimiser steps a step makes, as `train.preparing.update_parts` cuts it."""
    train, replay = config.train, config.replay
    after = "buffer" in replay.modes and replay.buffer_place == "after"
    return Pace(train.epochs * train.minibatches, replay.buffer_epochs if after else 0)


def _weighed_by(config: Config) -> Priority:
    """Name what a draw reads: with a critic, the priority that the learner wrote down."""
    kind = config.draw.priority
    if kind == "td_error" or (kind == "advantage" and config.algo.advantage == "gae"):
        return "stored"
    return kind


def _buffer_updates(config: Config) -> int:
    if "buffer" not in config.replay.modes:
        return 0
    among = config.replay.buffer_place == "among"
    return config.train.minibatches if among else config.replay.buffer_updates


def _smaller(one: float | None, other: float | None) -> float | None:
    """Take the stricter of two limits; None is no limit."""
    known = [limit for limit in (one, other) if limit is not None]
    return min(known) if known else None
