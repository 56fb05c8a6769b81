"""Where the training loop meets the replay room: making a replayer, and writing its ledger."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.config.schema.config import Config
from recollect.ledger import Score, Use
from recollect.replay.book import Result, TaskBook
from recollect.replay.choice import Chooser
from recollect.replay.controller import Measured
from recollect.replay.pick import Pick
from recollect.replay.pool import Pool
from recollect.replay.replayer import Replayer
from recollect.replay.settings import adaptation, replay_policy, retirement, triggers
from recollect.replay.starting import Start
from recollect.store.base import StoreReader
from recollect.store.records import Provenance
from recollect.train.batch import Batch, ScoredRow
from recollect.train.drawn import Drawn
from recollect.train.replayed import Ratios, Replayed, RowUse, divergence
from recollect.train.totals import Totals
from recollect.train.updater import Updater
from recollect.trajectory import Trajectory
from recollect.types import RunId, TaskKey


def make_replayer(
    config: Config,
    store: StoreReader,
    run: RunId,
    schedule: Collection[TaskKey],
    learner: Updater,
    fingerprints: Provenance,
    totals: Totals,
) -> Replayer | None:
    """Make the replayer of a run as it stands; None where nothing is to be replayed."""
    if not config.replay.on:
        return None

    def likelihood(rows: Sequence[Trajectory]) -> list[float]:
        return [float(found.mean()) for found in learner.logprobs(rows)]

    # A row rests by the steps of this run; to tell whose a use was costs a look into the ledger.
    pool = Pool(store, run if config.pool.cooldown else None)
    return Replayer(
        pool,
        TaskBook(run, retirement(config), store.task_states(run)),
        schedule,
        replay_policy(config, fingerprints),
        Chooser(config.draw.choice, config.draw.candidates, likelihood),
        Start(triggers(config), totals.replay_since, bool(totals.replay_solved)),
        run,
        config.run.seed,
        adaptation(config),
    )


def results_of(fresh: Sequence[Trajectory]) -> list[Result]:
    """Count the successes of each task's fresh rows, in order of appearance."""
    found: dict[TaskKey, list[bool]] = {}
    for row in fresh:
        found.setdefault(row.task, []).append(row.success)
    return [Result(task, sum(each), len(each)) for task, each in found.items()]


def drifted(
    learner: Updater, picks: Sequence[Pick], bound: float | None
) -> dict[int, NDArray[np.float64]]:
    """Find stored rows whose policy ratios have drifted: 99 % quantile above the bound.

    Gives the log ratios of their tokens by slot. A row without recorded log-probs has none to
    drift from.
    """
    if bound is None or not picks:
        return {}
    found = {}
    now = learner.logprobs([pick.trajectory for pick in picks])
    for pick, logprobs in zip(picks, now, strict=True):
        recorded = pick.trajectory.logprobs
        if recorded is None:
            continue
        drift = logprobs.astype(np.float64) - recorded
        if Ratios.of(drift).p99 > bound:
            found[pick.slot] = drift
    return found


def uses_of(run: RunId, step: int, replayed: Replayed | None) -> list[Use]:
    """Write down what each applied draw did."""
    return [
        Use(
            run=run,
            step=step,
            slot=use.pick.slot,
            trajectory=use.pick.trajectory.id,
            epochs=use.updates,
            ratio_mean=use.ratios.mean,
            ratio_p50=use.ratios.p50,
            ratio_p99=use.ratios.p99,
            ratio_max=use.ratios.max,
            ess=use.ratios.ess,
            clip_share=use.clip_share,
            loss_share=use.loss_share,
        )
        for use in (replayed.uses if replayed else ())
    ]


def left_out_scores(
    run: RunId, step: int, drawn: Drawn, old: Mapping[int, NDArray[np.float64]]
) -> list[Score]:
    """Write down what was measured of rows that were left out: they are not eligible again.

    Advantage and priority stay what they were. A row that never had any gets none by this.
    """
    found = []
    for pick in drawn.every:
        if pick.slot in old and pick.advantage is not None and pick.priority is not None:
            ratios, kept = Ratios.of(old[pick.slot]), (pick.advantage, pick.priority)
            found.append(Score(run, step, pick.trajectory.id, *kept, ratios.ess, ratios.p99))
    return found


def scores_of(
    run: RunId, step: int, batch: Batch, replayed: Replayed | None, priority: str = "advantage"
) -> list[Score]:
    """Write down the advantage of every fresh row, and what was measured of replayed ones.

    The `priority` of rows that a critic credited is `draw.priority`'s, anew at every use.
    """
    scores = [
        Score(run, step, row.trajectory.id, row.advantage, _priority(row, priority))
        for row in batch.rows
        if row.pick is None and math.isfinite(row.advantage)
    ]
    scores += [
        Score(
            run,
            step,
            use.pick.trajectory.id,
            use.advantage,
            _priority(use, priority),
            use.ratios.ess,
            use.ratios.p99,
        )
        for use in (replayed.uses if replayed else ())
    ]
    return scores


def measured_of(
    replayed: Replayed | None, drawn: Drawn, old: Mapping[int, NDArray[np.float64]]
) -> Measured | None:
    """What the rules of adaptation look at: the rows that trained, or that all were too `old`.

    None where neither is so: nothing was drawn, or what was drawn trained nothing.
    """
    if replayed is not None:
        return Measured(replayed.ratios.ess, replayed.kl)
    if not old or len(old) < len(drawn.every):
        return None
    drift = np.concatenate(list(old.values()))
    return Measured(Ratios.of(drift).ess, divergence(drift), all_drifted=True)


def _priority(row: ScoredRow | RowUse, kind: str) -> float:
    return abs(row.advantage) if row.credit is None else row.credit.priority(kind)
