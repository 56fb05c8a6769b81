"""The learner: one scored batch becomes optimiser steps."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo import kl
from recollect.algo.rows import Rows
from recollect.config.schema.config import Config
from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.randomness import stream_seed
from recollect.train.batch import Batch, ScoredRow, minibatches
from recollect.train.guards import Guard
from recollect.train.objective import (
    aggregated,
    kl_losses,
    policy_losses,
    replayed_losses,
    stripped_losses,
)
from recollect.train.optimizer import learning_rate, load_optimizer, make_optimizer, save_optimizer
from recollect.train.packing import Pack, pack
from recollect.train.report import StepFigures, UpdateFigures, UpdateReport
from recollect.train.scorer import (
    Recorded,
    Reference,
    entropies,
    log_distributions,
    of_targets,
    target_logprobs,
)
from recollect.train.stripped import BareRows, is_stripped, look_at
from recollect.trajectory import Trajectory

OPTIMIZER = "optimizer.safetensors"


class Learner:
    """Applies scored batches to a policy. `version` counts optimiser steps.

    Promises: the same batches in the same order give the same weights, bit for bit, on one
    CPU; a loss or gradient that is not finite changes nothing and is counted; a batch without
    signal changes nothing. `reference` is needed where `algo.kl_coef` is above 0.
    """

    def __init__(
        self, policy: Policy, config: Config, guard: Guard, reference: Reference | None = None
    ) -> None:
        assert reference is not None or not config.algo.kl_coef, "a KL divergence to what?"
        self.policy = policy
        self.version = 0
        self._config = config
        self._guard = guard
        self._reference = reference
        self._temperature = config.rollout.temperature
        self._parameters = policy.trainable()
        self._optimizer = make_optimizer(self._parameters, config.train)
        # A term of the loss over the weights themselves, once per optimiser step; None = none.
        self.penalty: Callable[[], torch.Tensor] | None = None
        self._old_logprobs: dict[str, NDArray[np.float32]] = {}
        self._bare = BareRows()

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
        figures = UpdateFigures()
        parts = minibatches(batch.training, train.minibatches) * train.epochs
        parts += batch.extra
        self._bare = look_at(batch.training, self._config.notes, self.logprobs)
        self._old_logprobs = {**self._recomputed(batch), **self._bare.old}
        with _seeded(self._config.run.seed, step, self.policy.device):
            for done, rows in enumerate(parts, start=1):
                self._step(rows, step, figures)
                progress(done, len(parts))
        return figures.report(rate, len(self._bare.distilled))

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float32]]:
        """Log-probs of each row's sampled tokens under the policy as it is now."""
        found = [np.empty(t.sampled_count, np.float32) for t in trajectories]
        for each in self._packs(trajectories):
            values = target_logprobs(self.policy.model, each, self._temperature).cpu().numpy()
            rows, places = each.rows.cpu().numpy(), each.places.cpu().numpy()
            for number in np.unique(rows):
                mine = rows == number
                found[number][places[mine]] = values[mine]
        return found

    def penalties(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """KL cost of each row, to be taken off its reward: kl_coef times the sum over its tokens.

        All 0 unless `algo.kl_in` is "reward". Policy and reference are computed by the same
        passes, so that equal weights cost exactly 0: with recorded log-probs rounding would be
        left over, and advantages blow the smallest difference within a group up to full size.
        """
        algo, costs = self._config.algo, np.zeros(len(trajectories))
        if self._reference is not None and algo.kl_in == "reward":
            for each in self._packs(trajectories):
                cost = kl.kl_penalty(
                    target_logprobs(self.policy.model, each, self._temperature),
                    self._reference.logprobs(each, self._temperature),
                    torch.ones_like(each.targets, dtype=torch.bool),
                    estimator=algo.kl_estimator,
                )
                np.add.at(costs, each.rows.cpu().numpy(), cost.double().cpu().numpy())
        return [algo.kl_coef * float(cost) for cost in costs]

    def save(self, folder: Path) -> None:
        """Write weights and optimiser state into a folder; OSError where the disk refuses."""
        from safetensors import SafetensorError

        try:
            self.policy.save(folder)
            save_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)
        except SafetensorError as error:  # a class of its own, for a full disk too
            raise OSError(errno.EIO, str(error), str(folder)) from error

    def restore(self, folder: Path, version: int) -> None:
        """Take optimiser state and version back; the weights were loaded with the policy."""
        load_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)
        self.version = version

    def _recomputed(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Log-probs that stand in for the recorded ones of stored rows, where that is asked for."""
        if self._config.correction.old_logprobs == "recorded":
            return {}
        every = (*batch.training, *(row for update in batch.extra for row in update))
        stored = {
            row.trajectory.id: row.trajectory
            for row in every
            if row.pick is not None or row.trajectory.logprobs is None
        }
        return dict(zip(stored, self.logprobs(list(stored.values())), strict=True))

    def _packs(self, trajectories: Sequence[Trajectory]) -> list[Pack]:
        train = self._config.train
        return pack(trajectories, train.pack_tokens, train.shared_prompts, self.policy.device)

    def _step(self, rows: Sequence[ScoredRow], step: int, figures: UpdateFigures) -> None:
        """One optimiser step over some rows, pack by pack."""
        trajectories = [row.trajectory for row in rows]
        given = _Given(rows, self._old_logprobs, self._bare.distilled, self.policy.device)
        by_token = self._config.algo.aggregation == "token-mean"
        denominator = sum(t.sampled_count for t in trajectories) if by_token else len(rows)
        self._optimizer.zero_grad(set_to_none=True)
        piece = StepFigures()
        for each in self._packs(trajectories):
            # The layout stays in force for the backward pass: checkpointing runs layers again.
            with packed(each.spans):
                loss = self._loss(each, given, float(denominator), piece)
                loss.backward()  # type: ignore[no-untyped-call]
        if self.penalty is not None:
            term = self.penalty()
            term.backward()  # type: ignore[no-untyped-call]
            piece.loss += float(term.detach())
        norm = float(
            torch.nn.utils.clip_grad_norm_(
                [p for _, p in self._parameters], self._config.train.max_grad_norm
            )
        )
        if self._guard.allows(step, piece.loss, norm, rows):
            self._optimizer.step()
            self.version += 1
            figures.apply(piece, norm, rows)
        else:
            figures.skip()
        self._optimizer.zero_grad(set_to_none=True)

    def _loss(
        self, each: Pack, given: _Given, denominator: float, figures: StepFigures
    ) -> torch.Tensor:
        algo = self._config.algo
        distributions = log_distributions(self.policy.model, each, self._temperature)
        logprobs, recorded = of_targets(distributions, each), given.recorded.logprobs(each)
        rows, advantages = Rows(each.rows, given.count), given.advantages[each.rows]
        stored, stripped = given.stored[each.rows], given.stripped[each.rows]
        fresh = ~(stored | stripped)
        token_losses, diagnostics = policy_losses(algo, logprobs, recorded, advantages, fresh, rows)
        if given.any_stripped:
            masks = stripped, given.distilled[each.rows]
            bare, what = stripped_losses(self._config, logprobs, recorded, advantages, masks, rows)
            token_losses = token_losses + bare
            part = float(aggregated(self._config, bare.detach(), rows, denominator))
            figures.stripped.add(logprobs - given.behaviour.logprobs(each), part, what)
        if given.any_stored:
            off, what = replayed_losses(
                self._config.correction, logprobs, recorded, advantages, stored, rows
            )
            off = off * given.weights[each.rows]
            token_losses = token_losses + off
            part = float(aggregated(self._config, off.detach(), rows, denominator))
            drift = logprobs - given.behaviour.logprobs(each)
            figures.replayed.add(each.rows, drift, token_losses, part, what)
        # Both are estimates over what the policy samples now, from the prompt as it stands: tokens
        # that are stored, or were sampled with notes that are gone, have no part in them.
        if self._reference is not None and algo.kl_in == "loss":
            reference = self._reference.logprobs(each, self._temperature)
            token_losses = token_losses + kl_losses(algo, logprobs, reference, fresh)
        if algo.entropy_coef:
            bonus = torch.where(fresh, entropies(distributions), 0.0)
            token_losses = token_losses - algo.entropy_coef * bonus
        loss = aggregated(self._config, token_losses, rows, denominator)
        figures.add(loss, logprobs, recorded, diagnostics)
        return loss


class _Given:
    """What is known of the rows of one optimiser step before the model sees them, as tensors."""

    def __init__(
        self,
        rows: Sequence[ScoredRow],
        old: Mapping[str, NDArray[np.float32]],
        distilled: frozenset[str],
        device: torch.device,
    ) -> None:
        self.count = len(rows)
        trajectories = [row.trajectory for row in rows]
        self.recorded = Recorded(trajectories, device, old)
        # What drift is measured from is always the policy that sampled, where one is known.
        unknown = {str(t.id): old[t.id] for t in trajectories if t.logprobs is None}
        self.behaviour = Recorded(trajectories, device, unknown) if old else self.recorded
        self.advantages = torch.tensor([row.advantage for row in rows], device=device)
        self.stored = torch.tensor([row.pick is not None for row in rows], device=device)
        self.weights = torch.tensor(
            [1.0 if row.pick is None else row.pick.weight for row in rows], device=device
        )
        self.any_stored = any(row.pick is not None for row in rows)
        bare = [is_stripped(row) for row in rows]
        self.stripped = torch.tensor(bare, device=device)
        self.any_stripped = any(bare)
        self.distilled = torch.tensor(
            [row.trajectory.id in distilled for row in rows], device=device
        )


@contextmanager
def _seeded(seed: int, step: int, device: torch.device) -> Iterator[None]:
    """Make what adapters drop, if they do, a function of the step; torch knows no other way."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(stream_seed(seed, "dropout", step))
        yield
