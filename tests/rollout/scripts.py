"""Rows whose owner is a script: what it says after each turn is written down beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from models.architectures import VOCABULARY
from recollect.rollout.sampler import Row, Sampler
from recollect.types import Sampling

# About one token in ten ends a turn, so that rows end at different times.
STOPS = tuple(range(0, VOCABULARY, 10))


def tokens(count: int, *seed: int) -> list[int]:
    """Draw token ids, none of which is a stop."""
    drawn = np.random.default_rng(seed).integers(0, VOCABULARY // 10, count) * 10
    return [int(base + 1 + n % 9) for n, base in enumerate(drawn)]


@dataclass
class Script:
    """A prompt, what is said after each turn, and how long a turn may be."""

    prompt: list[int]
    replies: list[list[int]]
    turn_limit: int
    seed: int
    ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    turns: list[list[int]] = field(default_factory=list)
    row: Row = field(init=False)

    def __post_init__(self) -> None:
        uniforms = np.random.default_rng([9, self.seed]).random(400)
        self.row = Row(list(self.prompt), uniforms, self.turn_limit)
        self.ids = list(self.prompt)
        self.sampled = [False] * len(self.prompt)

    def end_turn(self) -> None:
        turn = self.row.turn
        self.row.turn = []
        self.turns.append(turn)
        self.ids += turn
        self.sampled += [True] * len(turn)
        if len(self.turns) > len(self.replies):
            self.row.done = True
            return
        reply = self.replies[len(self.turns) - 1]
        self.row.pending.extend(reply)
        self.ids += reply
        self.sampled += [False] * len(reply)


def scripts() -> list[Script]:
    """Make eleven rows: groups of the same prompt, answers from 0 to 40 tokens, 1 to 4 turns."""
    prompts = [tokens(size, 1, size) for size in (12, 3, 25, 1)]
    found = []
    for number in range(11):
        sizes = [(number * 7 + turn * 13) % 41 for turn in range(number % 4)]
        replies = [tokens(size, 2, number, turn) for turn, size in enumerate(sizes)]
        prompt = prompts[(number // 3) % 4]
        found.append(Script(prompt, replies, 3 + number % 7, number))
    return found


def play(
    model: Any,
    chosen: Sequence[Script],
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    batch_rows: int = 64,
    stops: Sequence[int] = STOPS,
) -> None:
    """Run scripts to their ends."""
    owners = {id(script.row): script for script in chosen}

    def end_turns(rows: Sequence[Row]) -> None:
        for row in rows:
            owners[id(row)].end_turn()

    def rows() -> Iterator[Row]:
        yield from (script.row for script in chosen)

    Sampler(model, stops, batch_rows).run(rows(), sampling, end_turns)


@torch.no_grad()
def recompute(model: Any, script: Script, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs and entropies of a row's sampled tokens by a plain pass over its final tokens."""
    ids = torch.tensor(script.ids)
    logits = model(ids[None], use_cache=False).logits[0, :-1].double()
    logprobs = torch.log_softmax(logits / (temperature or 1.0), -1)
    picked = logprobs.gather(1, ids[1:, None])[:, 0]
    entropies = torch.special.entr(logprobs.exp()).sum(-1)
    mask = torch.tensor(script.sampled[1:])
    return picked[mask], entropies[mask]
