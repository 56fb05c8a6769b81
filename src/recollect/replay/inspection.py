"""A replayer on a pool as it lies in a store, to see what it would do. No model is needed."""

from __future__ import annotations

import numpy as np

from recollect.config.schema.config import Config
from recollect.config.schema.environment import EnvironmentSettings
from recollect.errors import EmptyPool
from recollect.replay.book import TaskBook
from recollect.replay.choice import Chooser
from recollect.replay.pool import Pool
from recollect.replay.replayer import Replayer
from recollect.replay.settings import replay_policy, retirement, triggers
from recollect.replay.starting import Start
from recollect.store.base import StoreReader
from recollect.types import Task


def make_simulator(reader: StoreReader, config: Config) -> tuple[Replayer, int]:
    """Make the replayer that a configuration describes, and the policy version it begins at.

    It goes on where the pool's newest row was sampled (where none was, at its newest demo): in its
    run, at the version which that has come to, with its fingerprints. Nothing is attempted here, so
    the solve rate that replay may wait for counts as reached, and limits stay as configured: rules
    that move them (adapt) go by what training shows. Of the tasks in the pool those count as
    trained on that environment.domains and .levels let through: which more are, the environment
    would know. For `likeliest` the log-probs of the policy that sampled stand in for those of a
    policy that is not here.
    """
    pool = Pool(reader)
    if not len(pool):
        raise EmptyPool(reader.path)
    facts = pool.facts
    sampled = np.flatnonzero(facts["version"] >= 0)
    newest = int(sampled[-1]) if sampled.size else len(pool) - 1
    run = pool.runs[int(facts["run"][newest])]
    fingerprints = pool.provenances[int(facts["provenance"][newest])]
    replayer = Replayer(
        pool,
        TaskBook(run, retirement(config), reader.task_states(run)),
        {task.key for task in pool.tasks.values() if _chosen(task, config.environment)},
        replay_policy(config, fingerprints),
        Chooser(
            config.draw.choice,
            config.draw.candidates,
            lambda rows: [np.nan if t.mean_logprob is None else t.mean_logprob for t in rows],
        ),
        Start(triggers(config), solved=True),
        run,
        config.run.seed,
    )
    # A run that came here without its cursor has made one update at least.
    cursor, behind = reader.cursor(run), int(facts["version"][newest]) + 1
    return replayer, behind if cursor is None else max(cursor.policy_version, behind)


def _chosen(task: Task, wanted: EnvironmentSettings) -> bool:
    """Tell whether settings would choose a task, as envs.selection does."""
    domains, levels = wanted.domains, wanted.levels
    return (domains is None or task.domain in domains) and (levels is None or task.level in levels)
