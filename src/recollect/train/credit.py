"""Credit: what PPO holds against each sampled token of a row, from rewards and values.

An episode is its sampled tokens. The reward of a row falls on the last of them, a KL penalty on
each; what the environment wrote in between is bridged (see `algo.gae`). An episode that was cut
off by a limit has its reward like any other and nothing after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo.gae import gae
from recollect.algo.rows import Rows
from recollect.algo.whitening import has_spread, whiten

Tokens = NDArray[np.float32]

_EPS = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Credit:
    """Of each sampled token of a row [k]: what was expected, what came of it, what it trains with.

    `raw` is the advantage as GAE gives it, in units of reward: priorities come from it, so that
    they have one scale for life. `advantages` are those that train, whitened or not. `error` is
    the mean size of the one-token errors of the critic.
    """

    values: Tokens
    returns: Tokens
    raw: Tokens
    advantages: Tokens
    error: float

    @property
    def advantage(self) -> float:
        """Mean over the tokens, in units of reward."""
        return _mean(self.raw)

    def priority(self, kind: str) -> float:
        """How much replay wants the row again: the mean size of its advantages, or of its errors.

        In units of reward, and never negative.
        """
        return self.error if kind == "td_error" else _mean(np.abs(self.raw))


def credit(
    rewards: Sequence[float],
    values: Sequence[Tokens],
    penalties: Sequence[Tokens] | None,
    *,
    gamma: float,
    lam: float,
) -> list[Credit]:
    """Credit the tokens of each row by GAE; one reward, values [k] and penalties [k] a row.

    `penalties` are taken off the rewards token by token. Not whitened yet.
    """
    if not rewards:
        return []
    lengths = [part.size for part in values]
    rows = Rows.from_lengths(lengths)
    ends = np.cumsum(lengths) - 1
    by_token = torch.zeros(sum(lengths), dtype=torch.float64)
    if penalties is not None:
        by_token -= torch.from_numpy(np.concatenate(penalties)).double()
    by_token[torch.from_numpy(ends)] += torch.tensor(list(rewards), dtype=torch.float64)
    expected = torch.from_numpy(np.concatenate(values)).double()
    mask = torch.ones_like(rows.index, dtype=torch.bool)
    found = gae(by_token, expected, rows, mask, gamma=gamma, lam=lam)
    errors = gae(by_token, expected, rows, mask, gamma=gamma, lam=0.0).advantages
    cuts = ends[:-1] + 1
    parts = zip(
        values,
        np.split(_floats(found.returns), cuts),
        np.split(_floats(found.advantages), cuts),
        np.split(_floats(errors), cuts),
        strict=True,
    )
    return [
        Credit(value, back, raw, raw, _mean(np.abs(error))) for value, back, raw, error in parts
    ]


def whitened(credits_: Sequence[Credit], how: Literal["full", "scale", "off"]) -> list[Credit]:
    """Whiten the advantages of rows over all of their tokens together.

    full: (A - mean) / std; scale: A / std, so that signs stay. Tokens without any spread become 0
    in the first and stay as they are in the second.
    """
    if how == "off" or not credits_:
        return list(credits_)
    raw = torch.from_numpy(np.concatenate([each.raw for each in credits_])).double()
    mask = torch.ones_like(raw, dtype=torch.bool)
    if how == "full":
        found = _floats(whiten(raw, mask))
    else:
        found = _floats(raw / (raw.std() + _EPS) if has_spread(raw, mask) else raw)
    cuts = np.cumsum([each.raw.size for each in credits_])[:-1]
    parts = zip(credits_, np.split(found, cuts), strict=True)
    return [replace(each, advantages=part) for each, part in parts]


def explained_variance(credits_: Sequence[Credit]) -> float | None:
    """1 - Var(G - V) / Var(G) over all tokens: 1 = the critic knew, 0 = no better than the mean.

    None where returns do not vary, so that there is nothing to explain.
    """
    if not credits_:
        return None
    returns = np.concatenate([each.returns for each in credits_]).astype(np.float64)
    values = np.concatenate([each.values for each in credits_]).astype(np.float64)
    spread = float(returns.var())
    return 1.0 - float((returns - values).var()) / spread if spread > 0 else None


def _floats(numbers: torch.Tensor) -> Tokens:
    with np.errstate(over="ignore"):  # absurd rewards: the guard of the update refuses them
        found: Tokens = numbers.numpy().astype(np.float32)
    return found


def _mean(numbers: Tokens) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.mean(dtype=np.float64))
