"""Batched sampling with a KV cache: the engine that moves many rows at once.

A row alternates between being fed tokens it did not choose (its prompt, a tool's answer) and
sampling a turn. The sampler knows tokens only; what a finished turn means is decided by the
callback that the collector passes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.rollout.cache import SlotCache
from recollect.rollout.choosing import choose
from recollect.rollout.families import families_of
from recollect.types import Sampling

# Rows are let in, and rows with much to read are fed, in bunches of a share of the batch: a
# forward pass over one row costs nearly as much as one over many.
_BUNCH = 8
# Tokens (with padding) in one forward pass: bounds the memory of its activations and its mask.
_MOST_TOKENS = 8192


@dataclass(slots=True, eq=False)
class Row:
    """One sequence being generated.

    The owner fills `pending` (tokens to feed next, at least one), sets `turn_limit` (tokens it
    may sample before the turn is cut), and marks the row `done`. `uniforms` is the row's own
    random stream, one number per sampled token, so what it samples does not depend on its
    neighbours.
    """

    pending: list[int]
    uniforms: NDArray[np.float64]
    turn_limit: int
    turn: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    sampled: int = 0
    done: bool = False

    def take(self, token: int, logprob: float, entropy: float | None = None) -> None:
        """Append a sampled token; it is fed next. Entropies are told of all tokens or of none."""
        self.turn.append(token)
        self.logprobs.append(logprob)
        if entropy is not None:
            self.entropies.append(entropy)
        self.sampled += 1
        self.pending.append(token)


class RowSampler(Protocol):
    """Whoever moves rows: the model in this process, or an engine beside it."""

    @property
    def max_positions(self) -> int | None:
        """How many tokens a row may have; None where nothing bounds them."""

    def run(
        self,
        rows: Iterable[Row],
        sampling: Sampling,
        end_turns: Callable[[Sequence[Row]], None],
    ) -> None:
        """Run every row until its owner marks it done, under the policy as it is now.

        Log-probs are those of softmax(logits / temperature), whatever cuts it; entropies are told
        of all tokens or of none.
        """

    def close(self) -> None:
        """Let go of whatever it holds."""


class Sampler:
    """Generates for a Hugging Face causal language model, `batch_rows` rows at a time."""

    def __init__(self, model: Any, stop_ids: Sequence[int], batch_rows: int = 64) -> None:
        self._model = model
        self._stops = frozenset(stop_ids)
        self._slots = batch_rows

    @property
    def max_positions(self) -> int | None:
        """How many tokens the model can tell apart by position; None where it does not say."""
        found = getattr(self._model.config, "max_position_embeddings", None)
        return int(found) if found else None

    @torch.inference_mode()
    def run(
        self,
        rows: Iterable[Row],
        sampling: Sampling,
        end_turns: Callable[[Sequence[Row]], None],
    ) -> None:
        """Run every row until its owner marks it done. `rows` is read as places become free.

        `end_turns` is told which rows just sampled a stop token or reached their turn limit. It
        reads `turn` of each, then either clears it and adds to `pending` what comes next (the
        last sampled token is waiting there already), or marks the row done.
        """
        was_training = self._model.training
        self._model.eval()
        batch = _Batch(self._model, self._slots, sampling)
        waiting = iter(rows)
        try:
            while batch.admit(waiting):
                ended = [row for row in batch.advance() if self._has_ended(row)]
                if ended:
                    end_turns(ended)
                    batch.dismiss()
        finally:
            self._model.train(was_training)

    def close(self) -> None:
        """Nothing is held: the model is somebody else's."""

    def _has_ended(self, row: Row) -> bool:
        return row.turn[-1] in self._stops or len(row.turn) >= row.turn_limit


class _Batch:
    """The rows that are running, in the first slots of the cache."""

    def __init__(self, model: Any, slots: int, sampling: Sampling) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self._cache = SlotCache(slots, self._device)
        self._slots = slots
        self._sampling = sampling
        self._rows: list[Row] = []

    def admit(self, waiting: Iterator[Row]) -> bool:
        """Give free slots to waiting rows, if enough are free; tell whether any row runs."""
        free = self._slots - len(self._rows)
        if not self._rows or free * _BUNCH >= self._slots:
            self._rows.extend(islice(waiting, free))
        return bool(self._rows)

    def advance(self) -> list[Row]:
        """Feed pending tokens; sample a token for every row that has read all of its own.

        New rows are fed first, and rows with several pending tokens (a tool's answer) as soon
        as enough of them have come together. Until then these read one token in each step
        like all the others, so that nobody waits for anybody.
        """
        fresh = [slot for slot, _ in enumerate(self._rows) if not self._cache.lengths[slot]]
        if fresh:
            return self._prefill(fresh)
        behind = [slot for slot, row in enumerate(self._rows) if len(row.pending) > 1]
        if len(behind) * _BUNCH >= len(self._rows):
            return self._choose(*self._read(behind))
        return self._step()

    def dismiss(self) -> None:
        """Let finished rows go; the last row takes the slot of each."""
        for slot in reversed(range(len(self._rows))):
            if not self._rows[slot].done:
                continue
            last = len(self._rows) - 1
            if slot != last:
                self._cache.copy(last, [slot])
                self._rows[slot] = self._rows[last]
            self._cache.release(last)
            self._rows.pop()

    def _prefill(self, slots: list[int]) -> list[Row]:
        """Compute each distinct prompt once and copy its past to the other rows that begin so."""
        siblings: dict[tuple[int, ...], list[int]] = {}
        for slot in slots:
            siblings.setdefault(tuple(self._rows[slot].pending), []).append(slot)
        groups = {group[0]: group for group in siblings.values()}
        self._share_beginnings({group[0]: prompt for prompt, group in siblings.items()})
        leaders, logits = self._read(list(groups))
        order, picks = [], []
        for position, leader in enumerate(leaders):
            group = groups[leader]
            self._cache.copy(leader, group[1:])
            for slot in group:
                self._rows[slot].pending.clear()
                order.append(slot)
                picks.append(position)
        return self._choose(order, logits[picks])

    def _share_beginnings(self, prompts: dict[int, tuple[int, ...]]) -> None:
        """Feed what several prompts begin with (a domain's rules and tools) to one slot of them."""
        families = families_of(list(prompts.values()))
        if not families:
            return
        slots = {prompt: slot for slot, prompt in prompts.items()}
        firsts = [(slots[family.prompts[0]], family) for family in families]
        for slot, family in firsts:
            self._rows[slot].pending[family.common :] = []
        self._read([slot for slot, _ in firsts])
        for slot, family in firsts:
            self._cache.copy(slot, [slots[prompt] for prompt in family.prompts[1:]])
            for prompt in family.prompts:
                self._rows[slots[prompt]].pending[:] = prompt[family.common :]

    def _step(self) -> list[Row]:
        """Feed one token to every row."""
        slots = list(range(len(self._rows)))
        logits = self._forward(slots, [1] * len(slots))
        read = [slot for slot in slots if not self._rows[slot].pending]
        return self._choose(read, logits if len(read) == len(slots) else logits[read])

    def _read(self, slots: list[int]) -> tuple[list[int], torch.Tensor]:
        """Feed all that is pending to some slots; their order and the logits [B, V] they end in.

        Rows of similar size go together: padding costs as much as tokens.
        """
        ordered = sorted(slots, key=lambda slot: len(self._rows[slot].pending))
        parts: list[list[int]] = [[]]
        for slot in ordered:
            if (len(parts[-1]) + 1) * len(self._rows[slot].pending) > _MOST_TOKENS and parts[-1]:
                parts.append([])
            parts[-1].append(slot)
        found = []
        for part in parts:
            while len(self._rows[part[-1]].pending) > _MOST_TOKENS:  # then it is alone
                self._forward(part, [_MOST_TOKENS])
            found.append(self._forward(part, [len(self._rows[slot].pending) for slot in part]))
        return ordered, found[0] if len(found) == 1 else torch.cat(found)

    def _forward(self, slots: list[int], counts: list[int]) -> torch.Tensor:
        """Feed the first pending tokens of some slots; logits [B, V] of the last ones."""
        width = max(counts)
        ids = []
        for slot, count in zip(slots, counts, strict=True):
            pending = self._rows[slot].pending
            ids.append([0] * (width - count) + pending[:count])
            del pending[:count]
        feed = self._cache.begin(slots, counts)
        output = self._model(
            input_ids=torch.tensor(ids, device=self._device),
            attention_mask=feed.mask,
            position_ids=feed.positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def _choose(self, slots: list[int], logits: torch.Tensor) -> list[Row]:
        """Sample the next token of some slots from logits [B, V]."""
        rows = [self._rows[slot] for slot in slots]
        if not rows:
            return rows
        uniforms = torch.tensor([row.uniforms[row.sampled] for row in rows], dtype=torch.float64)
        chosen = choose(logits, uniforms.to(logits.device), self._sampling)
        tokens, logprobs = chosen.tokens.tolist(), chosen.logprobs.tolist()
        for each in zip(rows, tokens, logprobs, chosen.entropies.tolist(), strict=True):
            row, token, logprob, entropy = each
            row.take(token, logprob, entropy)
        return rows
