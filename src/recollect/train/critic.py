"""The critic: what reward is still to be expected before each sampled token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from recollect.config.schema.config import Config
from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.train.changed import changed
from recollect.train.optimizer import learning_rate, load_optimizer, make_optimizer, save_optimizer
from recollect.train.packing import Pack
from recollect.train.scorer import last_hidden, still

WEIGHTS = "critic.safetensors"
OPTIMIZER = "critic_optimizer.safetensors"


class Critic(torch.nn.Module):
    """A linear layer on the last hidden state: of the policy, or of a `trunk` of its own.

    The layer begins at 0, so that before the first update every value is 0. On the policy's
    hidden state the value loss reaches the policy's weights `policy_weight` times; a trunk is the
    critic's alone.
    """

    def __init__(self, width: int, trunk: Any = None, policy_weight: float = 0.0) -> None:
        super().__init__()
        self.head = torch.nn.Linear(width, 1)
        self.trunk = trunk
        self._policy_weight = policy_weight
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def values(self, each: Pack, policy_hidden: torch.Tensor) -> torch.Tensor:
        """Values [n] of a pack's targets, with gradient; call it inside `packed(each.spans)`.

        `policy_hidden` [1, m, H] is what `last_hidden` caught; with a trunk it is not read.
        """
        if self.trunk is not None:
            output = self.trunk(
                input_ids=each.ids, position_ids=each.positions, use_cache=False
            ).last_hidden_state
            hidden = output[0, each.keep]
        else:
            weight, still_hidden = self._policy_weight, policy_hidden[0].detach()
            hidden = still_hidden
            if weight:
                hidden = weight * policy_hidden[0] + (1.0 - weight) * still_hidden
        found: torch.Tensor = self.head(hidden.float())[each.by, 0]
        return found


class CriticLearner:
    """A critic with its optimiser. Both are in a checkpoint, as safetensors."""

    def __init__(self, critic: Critic, config: Config) -> None:
        self.critic = critic
        self._config = config
        self._parameters = list(critic.named_parameters())
        self._optimizer = make_optimizer(self._parameters, config.train)

    def begin(self, step: int) -> None:
        """Set the learning rate of a step."""
        config = self._config
        rate = learning_rate(config.train, step, config.run.steps, config.critic.learning_rate)
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    @torch.no_grad()
    def expected(self, policy: Any, each: Pack) -> torch.Tensor:
        """Values [n] of a pack's targets, as constants and without dropout."""
        if self.critic.trunk is not None:
            with packed(each.spans):
                return self.critic.values(each, torch.empty(0))
        with still(policy), packed(each.spans), last_hidden(policy) as seen:
            policy(
                input_ids=each.ids,
                position_ids=each.positions,
                use_cache=False,
                logits_to_keep=each.keep,
            )
            return self.critic.values(each, seen[0])

    def clip(self) -> float:
        """Scale the gradient down to `train.max_grad_norm`; gives its norm before that."""
        parameters = [p for _, p in self._parameters]
        return float(torch.nn.utils.clip_grad_norm_(parameters, self._config.train.max_grad_norm))

    def apply(self) -> None:
        """Take one optimiser step."""
        self._optimizer.step()

    def forget(self) -> None:
        """Drop the gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def save(self, folder: Path) -> None:
        """Write weights and optimiser state into a folder."""
        from safetensors.torch import save_file

        weights = {name: p.detach().contiguous().cpu() for name, p in self._parameters}
        save_file(weights, str(folder / WEIGHTS))
        save_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)

    def restore(self, folder: Path) -> None:
        """Take weights and optimiser state back; BadConfig where they are not this critic's."""
        from safetensors.torch import load_file

        if not (folder / WEIGHTS).is_file():
            raise changed(folder, "has no critic", "algo.advantage")
        saved = load_file(str(folder / WEIGHTS))
        if {n: p.shape for n, p in saved.items()} != {n: p.shape for n, p in self._parameters}:
            raise changed(folder, "has another critic", "critic.kind or critic.model")
        with torch.no_grad():
            for name, parameter in self._parameters:
                parameter.copy_(saved[name])
        load_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)


def make_critic(config: Config, policy: Policy, start: Policy | None) -> CriticLearner | None:
    """Make the critic that a configuration asks for; None where advantages need none.

    `start` is a model loaded for it alone, of which it takes all but the output layer.
    """
    if config.algo.advantage != "gae":
        return None
    source = policy.model if start is None else start.model
    width = int(source.get_output_embeddings().weight.shape[-1])
    trunk = None if start is None else getattr(start.model, start.model.base_model_prefix)
    critic = Critic(width, trunk, config.critic.policy_weight).to(policy.device)
    return CriticLearner(critic, config)
