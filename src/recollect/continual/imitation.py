"""Learning from gold attempts instead of rewards, under any method.

    loss = - (1 / N) sum over the tokens of gold attempts of log pi(token)

the cross-entropy of what an ideal agent says: advantage 1 for every row, no ratio, no rollouts.
"""

from __future__ import annotations

from recollect.config.schema.config import Config
from recollect.config.without_replay import without_replay
from recollect.continual.demos import Teacher
from recollect.continual.methods.sequential import Quiet
from recollect.errors import BadContinual
from recollect.train.session import Session


def imitates(config: Config) -> bool:
    """Tell whether a continual run learns from gold attempts."""
    return config.continual.imitate or config.continual.method == "sft"


def imitation_settings(config: Config) -> Config:
    """One row for each task, trained on as it is; BadContinual for notes that nobody would read."""
    if config.notes.rollout != "bare":
        raise BadContinual(
            f"notes.rollout = {config.notes.rollout} would guide nobody: gold attempts are "
            "imitated, and no others are made at training tasks",
            "Set notes.rollout=bare, or learn from rewards.",
        )
    algo = {"advantage": "reward", "loss": "reinforce", "kl_coef": 0.0, "entropy_coef": 0.0,
            "dual_clip": None}  # fmt: skip
    # As many rows in a step as reinforcement learning has, if there are so many tasks.
    tasks = config.environment.tasks or config.rows_per_step
    rollout = {"rows_per_task": 1, "tasks_per_step": min(tasks, config.rows_per_step)}
    return without_replay(config).model_copy(
        update={
            "algo": config.algo.model_copy(update=algo),
            "rollout": config.rollout.model_copy(update=rollout),
            "train": config.train.model_copy(update={"minibatches": 1}),
            # Nobody sampled a demo: the policy itself stands in for its log-probs.
            "correction": config.correction.model_copy(update={"old_logprobs": "recomputed"}),
        }
    )


class Imitation(Quiet):
    """Lets a teacher collect; evaluation goes on with the collector."""

    def join(self, session: Session) -> None:
        """Put the teacher in the collector's place."""
        chat = session.own.policy.chat
        session.collector = Teacher(session.environment, chat, session.collector)
