"""Examining a model on every domain: the same tasks and users each time, one domain at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import torch

from recollect.config.schema.config import Config
from recollect.continual.examination import DomainResult, Examination, TaskResult
from recollect.envs.base import Environment
from recollect.models.attention import packed
from recollect.models.columns import route
from recollect.models.loading import Policy
from recollect.train.evaluation import TOOLS, Evaluation
from recollect.train.packing import pack
from recollect.train.parts import make_collector, make_evaluator
from recollect.train.ranks import ALONE, Ranks
from recollect.train.scorer import log_distributions, still
from recollect.trajectory import Trajectory
from recollect.types import Task

Tell = Callable[[str, int, int], None]  # domain, attempts done, attempts in all


def examine(
    config: Config,
    environment: Environment,
    policy: Policy,
    label: str,
    domains: Sequence[str],
    *,
    base: Policy | None = None,
    tell: Tell = lambda domain, done, total: None,
    ranks: Ranks = ALONE,
) -> Examination:
    """Play `eval.tasks` tasks of each domain; with a base, measure how far the policy is from it.

    The policy is not changed. A model with columns goes through the one of the domain. Of several
    `ranks`, the others must have been sent to `visit` the same model.
    """
    found = []
    policy.model.eval()
    own = make_collector(config, environment, policy)
    with closing(ranks.share(own, ())) as collector:
        for domain in domains:
            if policy.columns is not None:
                route(policy.model, policy.columns, domain)
            evaluator = make_evaluator(config, environment, collector, (domain,))
            size = evaluator.size

            def progress(done: int, failed: int, domain: str = domain, size: int = size) -> None:
                tell(domain, done + failed, size)

            played = evaluator.evaluate(progress)
            kl = None
            if base is not None and played.trajectories:
                kl = divergence(policy, base, played.trajectories, config)
            found.append(_result(domain, evaluator.tasks, config.eval.rows, played, kl))
    return Examination(label, config.eval.split, config.eval.temperature, tuple(found))


@torch.no_grad()
def divergence(policy: Policy, base: Policy, rows: Sequence[Trajectory], config: Config) -> float:
    """Mean over the sampled tokens of KL(policy || base), in nats per token.

    Exact at each token: sum over the vocabulary of p (log p - log q), at the prefixes that the
    policy visited. Forgetting was found to follow it (Shenfeld et al. 2025, RL's Razor).
    """
    total, tokens = 0.0, 0
    train, temperature = config.train, config.rollout.temperature
    for each in pack(rows, train.pack_tokens, train.shared_prompts, policy.device):
        with still(policy.model), still(base.model), packed(each.spans):
            mine = log_distributions(policy.model, each, temperature)
            theirs = log_distributions(base.model, each, temperature)
        apart = (mine.exp() * (mine - theirs)).sum(dim=-1)
        total += float(apart[each.by].sum(dtype=torch.float64))
        tokens += int(each.targets.numel())
    return max(0.0, total / tokens)


def _result(
    domain: str, tasks: Sequence[Task], rows: int, played: Evaluation, kl: float | None
) -> DomainResult:
    """Sort attempts by task; one that failed is a lost one."""
    by_task: dict[str, list[Trajectory]] = {task.key: [] for task in tasks}
    for trajectory in played.trajectories:
        by_task[trajectory.task].append(trajectory)
    results = []
    for task in tasks:
        here = by_task[task.key]
        lost = rows - len(here)
        shares = [t.reward.parts.get(TOOLS) for t in here]
        known = [share for share in shares if share is not None]
        results.append(
            TaskResult(
                task.id,
                task.level,
                (*(t.reward.value for t in here), *([0.0] * lost)),
                (*(t.success for t in here), *([False] * lost)),
                (*known, *([0.0] * lost)) if len(known) == len(here) else None,
            )
        )
    floors = [(score.n, score.floor) for score in played.scores if score.floor is not None]
    total = sum(n for n, _ in floors)
    floor = sum(n * value for n, value in floors) / total if total else None
    return DomainResult(domain, tuple(results), floor, kl)
