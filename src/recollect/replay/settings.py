"""The rules of replay, read from a configuration."""

from __future__ import annotations

from recollect.config.schema.config import Config
from recollect.replay.book import Retirement
from recollect.replay.eligibility import Rules
from recollect.replay.eviction import Keeping
from recollect.replay.replayer import Amounts, Budget, Policy
from recollect.replay.starting import Triggers
from recollect.replay.weights import Weighing
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
            draw.priority,
            draw.alpha,
            draw.half_life,
            draw.buckets,
            draw.bucket_center,
            draw.bucket_sigma,
        ),
        amounts=Amounts(
            mix_ratio=replay.mix_ratio if "mix" in replay.modes else 0.0,
            mix_rows=replay.mix_rows,
            trains=replay.participation != "off",
            repair_rows=replay.repair_rows if "repair" in replay.modes else 0,
            buffer_updates=replay.buffer_updates if "buffer" in replay.modes else 0,
            buffer_rows=replay.buffer_rows or config.rows_per_step // config.train.minibatches,
            buffer_share=replay.buffer_share,
            step_rows=config.rows_per_step,
            max_per_task=draw.max_per_task,
            max_domain_share=draw.max_domain_share,
            beta=draw.beta,
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


def _smaller(one: float | None, other: float | None) -> float | None:
    """Take the stricter of two limits; None is no limit."""
    known = [limit for limit in (one, other) if limit is not None]
    return min(known) if known else None
