"""sft: imitate gold attempts, domain after domain, instead of learning from rewards.

    loss = - (1 / N) sum over the tokens of gold attempts of log pi(token)

the cross-entropy of what an ideal agent says: advantage 1 for every row, no ratio, no rollouts. It
is here because it forgets where reinforcement learning may not (Shenfeld et al. 2025; Chen et al.
2025): an arm to measure protection against.
"""

from __future__ import annotations

from recollect.config.schema.config import Config
from recollect.continual.demos import Teacher
from recollect.continual.methods.sequential import Quiet, Sequential
from recollect.train.companion import Companion
from recollect.train.session import Session


class Sft(Sequential):
    """Replaces rollouts by demos."""

    def settings(self, number: int, config: Config) -> Config:
        """One row for each task, trained on as it is."""
        algo = {"advantage": "reward", "loss": "reinforce", "kl_coef": 0.0, "entropy_coef": 0.0,
                "dual_clip": None}  # fmt: skip
        # As many rows in a step as reinforcement learning has, if there are so many tasks.
        tasks = config.environment.tasks or config.rows_per_step
        rollout = {"rows_per_task": 1, "tasks_per_step": min(tasks, config.rows_per_step)}
        return config.model_copy(
            update={
                "algo": config.algo.model_copy(update=algo),
                "rollout": config.rollout.model_copy(update=rollout),
                "train": config.train.model_copy(update={"minibatches": 1}),
                "correction": config.correction.model_copy(update={"old_logprobs": "recomputed"}),
                "replay": config.replay.model_copy(update={"modes": (), "retire": False}),
            }
        )

    def companion(self, number: int) -> Companion | None:
        """Let a teacher collect."""
        return _Class()


class _Class(Quiet):
    def join(self, session: Session) -> None:
        """Put the teacher in the collector's place; evaluation goes on with the collector."""
        chat = session.learner.policy.chat
        session.collector = Teacher(session.environment, chat, session.collector)
