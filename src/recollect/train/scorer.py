"""Log-probs of recorded tokens: under the policy, under its reference, and as recorded."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo.entropy import entropy
from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.train.packing import Pack
from recollect.trajectory import Trajectory


def log_distributions(model: Any, each: Pack, temperature: float) -> torch.Tensor:
    """Log-probs [m, V] of every token at the outputs that a pack keeps, and nowhere else.

    Call it inside `packed(each.spans)`. They are those of softmax(logits / temperature), as the
    sampler records them; temperature 0 counts as 1, as it does there.
    """
    output = model(
        input_ids=each.ids,
        position_ids=each.positions,
        use_cache=False,
        logits_to_keep=each.keep,
    )
    logits: torch.Tensor = output.logits[0].float() / (temperature or 1.0)
    return torch.log_softmax(logits, dim=-1)


@contextmanager
def last_hidden(model: Any) -> Iterator[list[torch.Tensor]]:
    """Catch what a model's output layer reads inside: its last hidden state [1, m, H].

    That is where logits are asked for and nowhere else; one entry for each pass.
    """
    seen: list[torch.Tensor] = []

    def catch(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        seen.append(given[0])

    hook = model.get_output_embeddings().register_forward_pre_hook(catch)
    try:
        yield seen
    finally:
        hook.remove()


def of_targets(distributions: torch.Tensor, each: Pack) -> torch.Tensor:
    """Log-probs [n] of a pack's targets."""
    return distributions[each.by, each.targets]


def entropies(distributions: torch.Tensor, each: Pack) -> torch.Tensor:
    """Entropies [n] of the distributions that predict a pack's targets, in nats."""
    return entropy(distributions, distributions.exp())[each.by]


@torch.no_grad()
def target_logprobs(model: Any, each: Pack, temperature: float) -> torch.Tensor:
    """Log-probs [n] of a pack's targets under a model, as constants and without dropout."""
    with still(model), packed(each.spans):
        return of_targets(log_distributions(model, each, temperature), each)


@contextmanager
def still(model: Any) -> Iterator[None]:
    """Switch off what is random in training, such as the dropout of adapters."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def by_row(
    trajectories: Sequence[Trajectory], found: Sequence[tuple[Pack, torch.Tensor]]
) -> list[NDArray[np.float32]]:
    """Sort numbers of packs' targets [n] by the rows they belong to: one array for each row."""
    rows_of = [np.empty(t.sampled_count, np.float32) for t in trajectories]
    for each, numbers in found:
        values = numbers.cpu().numpy()
        rows, places = each.rows.cpu().numpy(), each.places.cpu().numpy()
        for number in np.unique(rows):
            mine = rows == number
            rows_of[number][places[mine]] = values[mine]
    return rows_of


class PerToken:
    """Numbers of the sampled tokens of some rows, found by row and place, never by order."""

    def __init__(self, parts: Sequence[NDArray[np.float32]], device: torch.device) -> None:
        lengths = [0, *(part.size for part in parts)]
        self._starts = torch.from_numpy(np.cumsum(lengths)).to(device)
        joined = np.concatenate([*parts, np.zeros(0, "<f4")])
        self._values = torch.from_numpy(joined).to(device)

    def at(self, each: Pack) -> torch.Tensor:
        """Numbers [n] of a pack's targets."""
        return self._values[self._starts[each.rows] + each.places]


class Recorded:
    """Old log-probs of some rows, found by row and place in the row, never by order.

    Those that were recorded when the row was sampled, or those in `instead`, by trajectory id.
    """

    def __init__(
        self,
        trajectories: Sequence[Trajectory],
        device: torch.device,
        instead: Mapping[str, NDArray[np.float32]] = MappingProxyType({}),
    ) -> None:
        found = [instead.get(t.id, t.logprobs) for t in trajectories]
        parts = [part for part in found if part is not None]
        if len(parts) != len(trajectories):
            raise ValueError("rows without recorded log-probs cannot be compared with the policy")
        self._tokens = PerToken(parts, device)

    def logprobs(self, each: Pack) -> torch.Tensor:
        """Recorded log-probs [n] of a pack's targets."""
        return self._tokens.at(each)


class Reference:
    """The policy as it was when the run began: a frozen model, or the policy without its adapter.

    `start` is the model before its first update. None means that `policy` is that still: with new
    adapters it is its own reference without them, of any other model a copy is kept.
    """

    def __init__(self, policy: Policy, start: Policy | None = None) -> None:
        self._has_adapter = start is None and hasattr(policy.model, "disable_adapter")
        if self._has_adapter:
            self._model: Any = policy.model
            return
        self._model = copy.deepcopy(policy.model) if start is None else start.model
        self._model.requires_grad_(False)

    def logprobs(self, each: Pack, temperature: float) -> torch.Tensor:
        """Log-probs [n] of a pack's targets under the reference."""
        if not self._has_adapter:
            return target_logprobs(self._model, each, temperature)
        with self._model.disable_adapter():
            return target_logprobs(self._model, each, temperature)
