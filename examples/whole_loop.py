"""The whole algorithm in one file: an agent learns by GRPO, on a CPU, in minutes.

    python examples/whole_loop.py --steps 32

Read it from top to bottom. It does what `recollect train` does, without what makes that fast,
durable and configurable: no packing, no store, no checkpoints. Its losses are the same, and a test
holds it to that (tests/examples/test_whole_loop.py).

A step of GRPO has four parts:

1. **collect**: let the policy try each of a few tasks several times. The attempts at one task are
   a group. For every token the policy writes, note the log-probability it had at that moment.
2. **compare**: an attempt's advantage is its reward minus the mean of its group, in units of the
   group's standard deviation. A group in which all rewards are equal teaches nothing.
3. **loss**: make the tokens of good attempts likelier and those of bad ones less likely, but not
   by more than a factor of 1 +- clip compared with the policy that wrote them (PPO).
4. **update**: one step of AdamW, with the gradient cut to a given length.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from recollect.algo.advantages import grpo
from recollect.envs.base import Environment
from recollect.envs.registry import load_environment
from recollect.models.loading import Policy, load_policy
from recollect.randomness import stream
from recollect.rollout.collector import Collector
from recollect.rollout.episode import Limits, Request
from recollect.rollout.sampler import Sampler
from recollect.trajectory import Trajectory
from recollect.types import RunId, Sampling, Task, group_id, trajectory_id

RUN = RunId("whole-loop")


@dataclass(frozen=True)
class Settings:
    """What can be chosen; the defaults are those of the preset `demo`."""

    model: str = "tiny"
    environment: str = "desk"
    levels: tuple[int, ...] | None = (1,)
    tasks: int | None = None  # how many different tasks there are to practise; None: all
    seed: int = 0
    steps: int = 32
    tasks_per_step: int = 4
    rows_per_task: int = 8  # the size of a group
    max_tokens: int = 480  # of a whole conversation
    max_turn_tokens: int = 40  # of one answer
    max_turns: int = 6
    temperature: float = 1.0
    epochs: int = 1  # passes over a step's attempts
    clip: float = 0.2
    learning_rate: float = 2e-4
    max_grad_norm: float = 1.0


@dataclass(frozen=True)
class StepResult:
    """What a step brought: mean reward, share of successes, and how many rows trained.

    Loss and gradient (its length before it is cut) are means over the epochs. In the first epoch
    all ratios are 1, and the loss is minus the mean advantage, 0: the gradient tells more.
    """

    step: int
    reward: float
    success: float
    loss: float
    gradient: float
    trained: int


def main() -> None:
    """Train with what the command line says, and print a line per step."""
    parser = argparse.ArgumentParser(description="GRPO from end to end, in one file.")
    parser.add_argument("--model", default=Settings.model)
    parser.add_argument("--environment", default=Settings.environment)
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    for result in train(Settings(**vars(parser.parse_args()))):
        print(
            f"step {result.step:3d} | reward {result.reward:.3f} | success {result.success:6.1%} | "
            f"gradient {result.gradient:.3f} | {result.trained} rows trained"
        )


def train(settings: Settings) -> Iterator[StepResult]:
    """Run the loop; one result per step."""
    environment = load_environment(settings.environment)
    policy = load_policy(settings.model, device="cpu")
    collector = Collector(
        environment,
        policy.chat,
        Sampler(policy.model, policy.chat.stop_ids),
        Limits(settings.max_tokens, settings.max_turn_tokens, settings.max_turns),
    )
    tasks = training_tasks(environment, settings)
    optimizer = torch.optim.AdamW(policy.model.parameters(), settings.learning_rate, weight_decay=0)
    try:
        for step in range(1, settings.steps + 1):
            # 1. collect
            requests = plan(tasks, step, settings)
            rows = collector.collect(requests, Sampling(settings.temperature)).trajectories
            # 2. compare
            advantages, has_signal = compare(rows)
            training = [
                (row, advantage)
                for row, advantage, alive in zip(rows, advantages, has_signal, strict=True)
                if alive
            ]
            # 3. and 4. loss and update
            epochs = settings.epochs if training else 0
            updates = [update(policy, optimizer, training, settings) for _ in range(epochs)]
            loss, gradient = np.mean(updates, axis=0) if updates else (0.0, 0.0)
            yield StepResult(
                step=step,
                reward=float(np.mean([row.reward.value for row in rows])),
                success=float(np.mean([row.success for row in rows])),
                loss=float(loss),
                gradient=float(gradient),
                trained=len(training),
            )
    finally:
        collector.close()


# -- 1. collect ---------------------------------------------------------------------------


def training_tasks(environment: Environment, settings: Settings) -> list[Task]:
    """Take the first tasks of the training split that have one of the wanted levels."""
    found = (
        task
        for task in environment.tasks("train")
        if settings.levels is None or task.level in settings.levels
    )
    tasks = list(itertools.islice(found, settings.tasks))
    assert len(tasks) >= settings.tasks_per_step, "a step needs as many different tasks"
    return tasks


def plan(tasks: Sequence[Task], step: int, settings: Settings) -> list[Request]:
    """Choose a step's tasks, and ask for several attempts at each.

    Tasks are shuffled once per pass. All chance in Recollect comes from streams that are named
    by (seed, purpose, ...) instead of one global generator: what an attempt samples follows from
    its own name, whoever is sampled beside it.
    """
    first = (step - 1) * settings.tasks_per_step
    lap, place = divmod(first, len(tasks) - len(tasks) % settings.tasks_per_step)
    order = stream(settings.seed, "tasks", lap).permutation(len(tasks))
    chosen = [tasks[number] for number in order[place : place + settings.tasks_per_step]]
    return [
        Request(
            id=trajectory_id(RUN, step, task.key, row),
            task=task,
            run=RUN,
            step=step,
            group=group_id(RUN, step, task.key),
            policy_version=step - 1,
            seed=settings.seed,
            row=row,
        )
        for task in chosen
        for row in range(settings.rows_per_task)
    ]


# -- 2. compare ---------------------------------------------------------------------------


def compare(rows: Sequence[Trajectory]) -> tuple[list[float], list[bool]]:
    """Give each row its advantage within its group, and say whether its group has any.

    advantage = (reward - mean of the group) / (standard deviation of the group + 1e-6)
    """
    names = sorted({row.group for row in rows})
    groups = torch.tensor([names.index(row.group) for row in rows])
    rewards = torch.tensor([row.reward.value for row in rows], dtype=torch.float64)
    scored = grpo(rewards, groups)
    return scored.values.tolist(), scored.signal.tolist()


# -- 3. loss ------------------------------------------------------------------------------


def token_logprobs(model: Any, row: Trajectory, temperature: float) -> torch.Tensor:
    """Log-probabilities, under the policy as it is now, of the tokens that it once sampled.

    The model reads the whole conversation once. Its output at each position is a prediction of
    the next token, so a sampled token at position p is looked up in the output at p - 1.
    """
    tokens = torch.from_numpy(row.tokens.astype(np.int64))
    logits = model(input_ids=tokens[None], use_cache=False).logits[0]
    logprobs = torch.log_softmax(logits.float() / temperature, dim=-1)
    places = torch.from_numpy(np.flatnonzero(row.sampled))
    return logprobs[places - 1, tokens[places]]


def ppo_loss(
    now: torch.Tensor, before: torch.Tensor, advantage: float, clip: float
) -> torch.Tensor:
    """PPO's clipped loss of each token of a row.

    The ratio tells how much likelier a token has become since it was sampled. The smaller of the
    two products counts: beyond the clip there is nothing more to gain, hence no gradient. In the
    first pass every ratio is 1, the loss is minus the advantage, and its gradient is that of
    minus advantage x log-probability.
    """
    ratio = torch.exp(now - before)
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantage, clipped * advantage)


# -- 4. update ----------------------------------------------------------------------------


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    training: Sequence[tuple[Trajectory, float]],
    settings: Settings,
) -> tuple[float, float]:
    """Make one step of the optimiser over all rows; return the loss and the gradient's length.

    The loss is the mean over rows of the mean over a row's tokens, so that long failures do not
    drown short successes. One backward pass per row adds up to the same gradient as one over
    everything, and needs the memory of a single row.
    """
    optimizer.zero_grad()
    total = 0.0
    for row, advantage in training:
        now = token_logprobs(policy.model, row, settings.temperature)
        assert row.logprobs is not None, "rows that were sampled have log-probabilities"
        before = torch.from_numpy(row.logprobs.copy())
        loss = ppo_loss(now, before, advantage, settings.clip).mean() / len(training)
        loss.backward()
        total += loss.item()
    gradient = torch.nn.utils.clip_grad_norm_(policy.model.parameters(), settings.max_grad_norm)
    optimizer.step()
    return total, gradient.item()


if __name__ == "__main__":
    main()
