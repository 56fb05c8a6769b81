"""Sampling turn by turn: rows of ours over an engine that answers prompts of token ids.

An engine such as vLLM has its own batches and its own cache; what it is asked for is a turn, and
what it gives back is tokens and log-probs. The rest is as in `rollout.sampler`: what a finished
turn means is decided by the callback that the collector passes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from math import isfinite
from typing import Protocol

from recollect.errors import GeneratorLost
from recollect.rollout.sampler import Row
from recollect.types import Sampling

_SEED_BITS = 53  # of a random number in [0, 1)


@dataclass(frozen=True, slots=True)
class Turn:
    """What is asked for: at most `limit` tokens after `prompt`, at the chance of `seed`."""

    prompt: Sequence[int]
    limit: int
    seed: int
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was sampled: tokens, the stop token included, and the log-prob of each."""

    tokens: Sequence[int]
    logprobs: Sequence[float]


class Speaker(Protocol):
    """An engine that samples turns. It stops at the policy's stop tokens and nowhere else.

    Promises: what it gives is sampled by the weights of its last `renew`; log-probs are those of
    softmax(logits / temperature), before top-k and top-p cut it. GeneratorLost where it is gone.
    """

    @property
    def max_positions(self) -> int | None:
        """How many tokens prompt and turn may have together; None where nothing bounds them."""

    def renew(self) -> None:
        """Take over the policy's weights as they are now, and forget what older ones computed."""

    def ask(self, number: int, turn: Turn) -> None:
        """Begin a turn; its number tells it from all others."""

    def hear(self) -> Sequence[tuple[int, Spoken]]:
        """Wait until turns are finished, and give them in the order of their numbers."""

    def drop(self) -> None:
        """Give up what was begun."""

    def close(self) -> None:
        """Let go of the engine."""


class TurnSampler:
    """Moves rows by asking for their turns, `batch_rows` at a time (see `sampler.RowSampler`).

    Weights are handed over before every round: a round follows an update, or a change of weights
    that nobody counts. Entropies are not known, and are not made up.
    """

    def __init__(self, speaker: Speaker, stop_ids: Sequence[int], batch_rows: int) -> None:
        self._speaker = speaker
        self._stops = frozenset(stop_ids)
        self._slots = batch_rows
        self._numbers = count()

    @property
    def max_positions(self) -> int | None:
        """How many tokens a row may have; None where nothing bounds them."""
        return self._speaker.max_positions

    def run(
        self,
        rows: Iterable[Row],
        sampling: Sampling,
        end_turns: Callable[[Sequence[Row]], None],
    ) -> None:
        """Run every row until its owner marks it done. `rows` is read as places become free."""
        self._speaker.renew()
        waiting = iter(rows)
        asked: dict[int, Row] = {}
        try:
            while self._admit(asked, waiting, sampling):
                ended = [self._take(asked, *heard) for heard in self._speaker.hear()]
                if not ended:
                    continue
                end_turns(ended)
                for row in ended:
                    if not row.done:
                        self._ask(asked, row, sampling)
        finally:
            if asked:
                self._speaker.drop()

    def close(self) -> None:
        """Let go of the engine."""
        self._speaker.close()

    def _admit(self, asked: dict[int, Row], waiting: Iterator[Row], sampling: Sampling) -> bool:
        """Begin as many rows as there are places; tell whether any turn is under way."""
        for row in islice(waiting, self._slots - len(asked)):
            self._ask(asked, row, sampling)
        return bool(asked)

    def _ask(self, asked: dict[int, Row], row: Row, sampling: Sampling) -> None:
        # Nobody feeds `pending` piece by piece here, so it holds the row from its first token on.
        seed = int(row.uniforms[row.sampled] * 2**_SEED_BITS)
        number = next(self._numbers)
        asked[number] = row
        self._speaker.ask(number, Turn(tuple(row.pending), row.turn_limit, seed, sampling))

    def _take(self, asked: dict[int, Row], number: int, spoken: Spoken) -> Row:
        """Write what was sampled into its row, once it is known to be a turn."""
        row, tokens = asked.pop(number), spoken.tokens
        if not tokens:
            raise GeneratorLost("vLLM", "it gave no token")
        if len(tokens) != len(spoken.logprobs):
            raise GeneratorLost("vLLM", f"{len(spoken.logprobs)} log-probs, {len(tokens)} tokens")
        if not all(isfinite(each) for each in spoken.logprobs):
            raise GeneratorLost("vLLM", "a log-prob is no number")
        early = [token for token in tokens[:-1] if token in self._stops]
        if early or len(tokens) > row.turn_limit:
            raise GeneratorLost("vLLM", "it went on after a stop token, or beyond the limit")
        if tokens[-1] not in self._stops and len(tokens) < row.turn_limit:
            raise GeneratorLost("vLLM", f"it stopped after {len(tokens)} tokens for no reason")
        for token, logprob in zip(tokens, spoken.logprobs, strict=True):
            row.take(int(token), min(float(logprob), 0.0))  # rounding above 0 is no probability
        return row
