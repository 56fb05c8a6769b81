"""The learner: one scored batch becomes optimiser steps."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo import kl
from recollect.algo.ratios import truncated_ratios
from recollect.algo.rows import Rows
from recollect.config.schema.config import Config
from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.randomness import stream_seed
from recollect.train.batch import Batch, ScoredRow
from recollect.train.critic import CriticLearner
from recollect.train.given import Given
from recollect.train.guards import Guard
from recollect.train.mismatch import cap_of, compare
from recollect.train.objective import (
    aggregated,
    contributions,
    kl_losses,
    policy_losses,
    replayed_losses,
    stripped_losses,
    value_losses,
)
from recollect.train.optimizer import (
    learning_rate,
    load_optimizer,
    make_optimizer,
    moments_of,
    save_optimizer,
)
from recollect.train.packing import Pack, blank, pack
from recollect.train.preparing import recomputed, step_denominator, update_parts
from recollect.train.ranks import ALONE, Ranks, Work
from recollect.train.report import StepFigures, UpdateFigures, UpdateReport
from recollect.train.scorer import (
    Reference,
    by_row,
    entropies,
    last_hidden,
    log_distributions,
    of_targets,
    target_logprobs,
)
from recollect.train.sharding import Shards, scale_gradients, whole_weights
from recollect.train.stripped import BareRows, look_at
from recollect.trajectory import Trajectory

OPTIMIZER = "optimizer.safetensors"


class Learner:
    """Applies scored batches to a policy. `version` counts optimiser steps.

    Promises: the same batches in the same order give the same weights, bit for bit, on one
    CPU; a loss or gradient that is not finite changes nothing and is counted; a batch without
    signal changes nothing. `reference` is needed where `algo.kl_coef` is above 0, `critic` where
    `algo.advantage` is gae: it then trains on the same packs. `shards` are the policy's weights
    where they are cut among processes.
    """

    def __init__(
        self,
        policy: Policy,
        config: Config,
        guard: Guard,
        reference: Reference | None = None,
        critic: CriticLearner | None = None,
        ranks: Ranks = ALONE,
        shards: Shards | None = None,
    ) -> None:
        assert reference is not None or not config.algo.kl_coef, "a KL divergence to what?"
        self.policy = policy
        self.version = 0
        self._config = config
        self._guard = guard
        self._reference = reference
        self._critic = critic
        self._ranks = ranks
        self._shards = shards
        self._temperature = config.rollout.temperature
        self._cap = cap_of(config.rollout)
        self._parameters = policy.trainable()
        self._optimizer = make_optimizer(self._parameters, config.train)
        # A term of the loss over the weights themselves, once per optimiser step; None = none.
        self.penalty: Callable[[], torch.Tensor] | None = None
        self._old_logprobs: dict[str, NDArray[np.float32]] = {}
        self._bare = BareRows()

    @property
    def parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Names and parameters that training changes, the critic's included, in a fixed order."""
        if self._critic is None:
            return self._parameters
        mine = self._critic.critic.named_parameters()
        return [*self._parameters, *((f"critic.{name}", p) for name, p in mine)]

    def update(
        self,
        batch: Batch,
        step: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> UpdateReport:
        """Train on the rows of a batch that carry signal, then on its extra updates.

        `progress` is told how many minibatches are done, of how many.
        """
        train = self._config.train
        rate = learning_rate(train, step, self._config.run.steps)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if self._critic is not None:
            self._critic.begin(step)
        figures = UpdateFigures(self._critic is not None)
        parts = update_parts(batch, self._config)
        self._bare = look_at(batch.training, self._config.notes, self.logprobs)
        again = recomputed(batch, self._config.correction, self.logprobs)
        agreed = compare(batch.rows, self._config.rollout, self.logprobs)
        self._old_logprobs = {**again, **self._bare.old, **agreed.old}
        with _seeded(self._config.run.seed, step, self.policy.device):
            for done, rows in enumerate(parts, start=1):
                self._step(rows, step, figures)
                progress(done, len(parts))
        return figures.report(rate, len(self._bare.distilled), agreed.mismatch)

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float32]]:
        """Log-probs of each row's sampled tokens under the policy as it is now."""
        model, temperature = self.policy.model, self._temperature
        packs = self._packs(trajectories)
        with self._ranks.whole() if packs else nullcontext():
            found = [(each, target_logprobs(model, each, temperature)) for each in packs]
        return by_row(trajectories, found)

    def values(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float32]]:
        """Value before each sampled token of each row, by the critic as it is now."""
        assert self._critic is not None, "values by whom?"
        model, critic = self.policy.model, self._critic
        packs = self._packs(trajectories)
        return by_row(trajectories, [(each, critic.expected(model, each)) for each in packs])

    def penalties(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """KL cost of each row, to be taken off its reward: kl_coef times the sum over its tokens.

        All 0 unless `algo.kl_in` is "reward". Policy and reference are computed by the same
        passes, so that equal weights cost exactly 0: with recorded log-probs rounding would be
        left over, and advantages blow the smallest difference within a group up to full size.
        """
        costs = np.zeros(len(trajectories))
        for each, cost in self._kl_costs(trajectories):
            np.add.at(costs, each.rows.cpu().numpy(), cost.double().cpu().numpy())
        return [self._config.algo.kl_coef * float(cost) for cost in costs]

    def token_penalties(
        self, trajectories: Sequence[Trajectory]
    ) -> list[NDArray[np.float32]] | None:
        """KL cost of each sampled token, to be taken off its reward; None where there is none."""
        if self._reference is None or self._config.algo.kl_in != "reward":
            return None
        coef = self._config.algo.kl_coef
        costs = [(each, coef * cost) for each, cost in self._kl_costs(trajectories)]
        return by_row(trajectories, costs)

    def save(self, folder: Path) -> None:
        """Write weights and optimiser state into a folder; OSError where the disk refuses."""
        from safetensors import SafetensorError

        try:
            self._ranks.lend()
            with self._passing():
                self.policy.save(folder, whole_weights(self.policy) if self._shards else None)
                save_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)
            if self._critic is not None:
                self._critic.save(folder)
        except SafetensorError as error:  # a class of its own, for a full disk too
            raise OSError(errno.EIO, str(error), str(folder)) from error

    def restore(self, folder: Path, version: int) -> None:
        """Take optimiser state and version back; the weights were loaded with the policy."""
        load_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)
        if self._critic is not None:
            self._critic.restore(folder)
        self.version = version

    def _kl_costs(self, trajectories: Sequence[Trajectory]) -> Iterator[tuple[Pack, torch.Tensor]]:
        """Estimates [n] of the KL divergence at a pack's targets, if they go into the reward."""
        algo = self._config.algo
        if self._reference is None or algo.kl_in != "reward":
            return
        with self._ranks.whole():
            for each in self._packs(trajectories):
                yield (
                    each,
                    kl.kl_penalty(
                        target_logprobs(self.policy.model, each, self._temperature),
                        self._reference.logprobs(each, self._temperature),
                        torch.ones_like(each.targets, dtype=torch.bool),
                        estimator=algo.kl_estimator,
                    ),
                )

    def _packs(self, trajectories: Sequence[Trajectory]) -> list[Pack]:
        train = self._config.train
        return pack(trajectories, train.pack_tokens, train.shared_prompts, self.policy.device)

    def _step(self, rows: Sequence[ScoredRow], step: int, figures: UpdateFigures) -> None:
        """One optimiser step over some rows, pack by pack."""
        denominator = step_denominator(rows, self._config.algo.aggregation)
        seed = stream_seed(self._config.run.seed, "dropout", step, self.version)
        old, distilled = self._old_logprobs, self._bare.distilled
        stored = any(row.pick is not None for row in rows)
        work = Work(rows, old, denominator, seed, distilled, stored)
        piece = self.gradients(self._ranks.hand_out(work, self.parameters))
        if self.penalty is not None:
            term = self.penalty()
            term.backward()
            piece.loss += float(term.detach())
        self._ranks.add_up(self.parameters, piece)
        norm = self._ranks.clip([p for _, p in self._parameters], self._config.train.max_grad_norm)
        if self._guard.allows(step, *self._to_guard(piece, norm), rows):
            self._ranks.apply(float(self._optimizer.param_groups[0]["lr"]))
            self._optimizer.step()
            if self._critic is not None:
                self._critic.apply()
            self.version += 1
            figures.apply(piece, norm, rows)
        else:
            figures.skip()
        self._forget()

    def follow(self, rate: float, scale: float) -> None:
        """Take the step that the leader takes with its slices, with ours: scale, then apply."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        scale_gradients([p for _, p in self._parameters], scale)
        self._optimizer.step()
        self._forget()

    def lend(self) -> None:
        """Hand our slices over to the leader, who puts them together as it saves."""
        whole_weights(self.policy)
        for _ in moments_of(self._optimizer, self._parameters):
            continue

    def _reading(self, model: Any) -> AbstractContextManager[list[torch.Tensor]]:
        """Let the critic read what the model's output layer reads, where there is a critic."""
        return nullcontext([]) if self._critic is None else last_hidden(model)

    def _to_guard(self, piece: StepFigures, norm: float) -> tuple[float, float]:
        """Loss and gradient norm that must be finite: with a critic, its own as well."""
        if self._critic is None:
            return piece.loss, norm
        piece.critic.norm = self._critic.clip()
        return piece.loss + piece.critic.loss, norm + piece.critic.norm

    def _forget(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        if self._critic is not None:
            self._critic.forget()

    def gradients(self, work: Work) -> StepFigures:
        """Compute the gradient of some rows, pack by pack, in place of what was there."""
        self._forget()
        figures = StepFigures()
        given = Given(work.rows, work.old, work.distilled, self.policy.device)
        given.any_stored = given.any_stored or work.stored
        packs = self._packs([row.trajectory for row in work.rows])
        with self._passing():
            more = 0 if self._shards is None else self._shards.passes(len(packs)) - len(packs)
            for each in packs:
                # The layout stays in force for the backward pass: checkpointing runs layers again.
                with packed(each.spans):
                    loss = self._loss(each, given, work.denominator, figures)
                    loss.backward()
            for _ in range(more):
                self._blank_pass()
        return figures

    def _passing(self) -> AbstractContextManager[None]:
        """Be with the other processes, where weights are cut among them."""
        return nullcontext() if self._shards is None else self._shards.passing()

    def _blank_pass(self) -> None:
        """Take part in a pass of others: where weights are cut, all gather them together."""
        each = blank(self.policy.device)
        with packed(each.spans):
            loss = 0.0 * of_targets(log_distributions(self.policy.model, each, 1.0), each).sum()
            if self._reference is not None and self._config.algo.kl_in == "loss":
                self._reference.logprobs(each, 1.0)
            loss.backward()

    def _loss(
        self, each: Pack, given: Given, denominator: float, figures: StepFigures
    ) -> torch.Tensor:
        algo, model = self._config.algo, self.policy.model
        with self._reading(model) as hidden:
            distributions = log_distributions(model, each, self._temperature)
        logprobs, recorded = of_targets(distributions, each), given.recorded.logprobs(each)
        rows, advantages = Rows(each.rows, given.count), given.advantages(each)
        stored, stripped = given.stored[each.rows], given.stripped[each.rows]
        fresh = ~(stored | stripped)
        token_losses, diagnostics = policy_losses(algo, logprobs, recorded, advantages, fresh, rows)
        behaviour = given.behaviour.logprobs(each)
        if self._cap is not None:
            weights = truncated_ratios(recorded, behaviour, fresh, cap=self._cap)
            token_losses = token_losses * weights
        if given.any_stripped:
            masks = stripped, given.distilled[each.rows]
            bare, what = stripped_losses(self._config, logprobs, recorded, advantages, masks, rows)
            token_losses = token_losses + bare
            part = float(aggregated(self._config, bare.detach(), rows, denominator))
            figures.stripped.add(logprobs - behaviour, part, what)
        if given.any_stored:
            off, what = replayed_losses(
                self._config.correction, logprobs, recorded, advantages, stored, rows
            )
            off = off * given.weights[each.rows]
            token_losses = token_losses + off
            part = float(aggregated(self._config, off.detach(), rows, denominator))
            pulls = contributions(self._config, token_losses.detach(), rows, denominator)
            figures.replayed.add(each.rows, logprobs - behaviour, pulls, part, what)
        # Both are estimates over what the policy samples now, from the prompt as it stands: tokens
        # that are stored, or were sampled with notes that are gone, have no part in them.
        if self._reference is not None and algo.kl_in == "loss":
            reference = self._reference.logprobs(each, self._temperature)
            token_losses = token_losses + kl_losses(algo, logprobs, reference, fresh)
        if algo.entropy_coef:
            bonus = torch.where(fresh, entropies(distributions, each), 0.0)
            token_losses = token_losses - algo.entropy_coef * bonus
        loss = aggregated(self._config, token_losses, rows, denominator)
        figures.add(loss, logprobs, behaviour, diagnostics)
        if self._critic is None:
            return loss
        losses = value_losses(
            self._config.critic,
            self._critic.critic.values(each, hidden[0]),
            given.returns(each),
            given.values(each),
        )
        losses = losses * torch.where(
            stored, self._config.correction.weight * given.weights[each.rows], 1.0
        )
        value_loss = aggregated(self._config, losses, rows, denominator)
        figures.critic.loss += float(value_loss.detach())
        return loss + value_loss


@contextmanager
def _seeded(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Make what adapters drop, if they do, a function of the step; torch knows no other way."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(stream_seed(seed, "dropout", step))
        yield
