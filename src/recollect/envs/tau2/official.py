"""tau2's own verdict on an attempt, by its evaluators as they are: slow, and our measure."""

from __future__ import annotations

import importlib
from typing import Any

from recollect.envs.tau2.criteria import parts_of
from recollect.envs.tau2.domain import Domain
from recollect.envs.tau2.identifiers import Counter, counting
from recollect.envs.tau2.judging import Attempt, spell


def official_reward(domain: Domain, id: str, attempt: Attempt) -> float:
    """Let tau2 replay the attempt on environments that it builds itself, and judge it.

    Of tasks whose score asks for a model's opinion, the parts that need none. Where its evaluator
    raises, because an assertion asks for a record that is not there, the reward is 0.
    """
    if not attempt.ended:
        return 0.0
    task, package = domain.task(id), domain.package
    history = (task.initial_state.message_history if task.initial_state else None) or ()
    messages: list[Any] = [*history, *spell(domain, attempt.said)]
    parts = parts_of(task)
    judge = importlib.import_module("tau2.evaluator.evaluator_env").EnvironmentEvaluator
    try:
        with counting(Counter()):
            environment = judge.calculate_reward(
                environment_constructor=package.domains[domain.name].get_environment,
                task=task,
                full_trajectory=messages,
                solo_mode=domain.solo,
            )
    except ValueError:
        return 0.0
    reward = float(environment.reward)
    if "ACTION" in parts:
        reward *= float(package.actions.calculate_reward(task, messages).reward)
    if "COMMUNICATE" in parts:
        reward *= float(package.communication.calculate_reward(task, messages).reward)
    return reward
