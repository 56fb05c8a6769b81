"""Packing rows without padding, with every common beginning computed once.

Rows of a group begin with the same prompt, rows of other tasks of the domain with the same rules
and tools, and stored rows of one task often with the same first call. In a pack the rows are a
tree: what several of them begin with stands once, followed by what is different of each, and
`models.attention` lets every branch see the way from the root to it, and itself. Tokens after a
row's last sampled token predict nothing that trains and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.errors import InvalidRecord
from recollect.models.attention import Span
from recollect.models.memory import MOST_SEEN
from recollect.trajectory import Tokens, Trajectory


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """One sequence for the model, and where its trained tokens are.

    `ids` and `positions` are [1, N]. The model speaks at `keep` [m], places that are all different;
    output number `by` [n] of these predicts `targets` [n]. `rows` [n] says which row of the
    minibatch each target belongs to, and `places` [n] which of that row's sampled tokens it is.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    spans: tuple[Span, ...]
    keep: torch.Tensor
    by: torch.Tensor
    targets: torch.Tensor
    rows: torch.Tensor
    places: torch.Tensor

    @property
    def tokens(self) -> int:
        """Length of the sequence."""
        return int(self.ids.shape[1])


# Seeing another row's beginning takes attention with a mask: for a few tokens it is not worth it.
LEAST_COMMON = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Leaf:
    """A row on its way into a pack: the tokens that are computed, where and what it samples."""

    row: int
    tokens: Tokens
    sampled: NDArray[np.intp]
    targets: Tokens


def pack(
    trajectories: Sequence[Trajectory],
    max_tokens: int,
    share: bool = True,
    device: torch.device | None = None,
    least_common: int = LEAST_COMMON,
) -> list[Pack]:
    """Pack rows into sequences of at most `max_tokens` (one row alone may be longer).

    All rows of a pack together see at most MOST_SEEN times as many. With `share`, what rows begin
    with alike is computed once in a pack, if it is at least `least_common` tokens. Rows are then
    packed in an order that puts those together, whatever order they come in.
    """
    leaves = [_leaf(number, each) for number, each in enumerate(trajectories)]
    if share:
        leaves.sort(key=lambda leaf: leaf.tokens.tobytes())
    packs: list[Pack] = []
    chosen: list[_Leaf] = []
    common: list[int] = []  # with the leaf before, of the same pack
    used = seen = 0
    for leaf in leaves:
        alike = _alike(chosen[-1].tokens, leaf.tokens) if share and chosen else 0
        alike = alike if alike >= least_common else 0
        size = leaf.tokens.size
        full = used + size - alike > max_tokens or seen + size > MOST_SEEN * max_tokens
        if chosen and full:
            packs.append(_build(chosen, common, device))
            chosen, common, used, seen, alike = [], [], 0, 0, 0
        chosen.append(leaf)
        common.append(alike)
        used += size - alike
        seen += size
    if chosen:
        packs.append(_build(chosen, common, device))
    return packs


def blank(device: torch.device | None = None) -> Pack:
    """Make a pack of one token that belongs to no row; its loss must count for nothing."""
    zero = torch.zeros(1, dtype=torch.int64, device=device)
    return Pack(zero[None], zero[None], (Span(0, 1),), zero, zero, zero, zero, zero)


def _leaf(number: int, trajectory: Trajectory) -> _Leaf:
    sampled = np.flatnonzero(trajectory.sampled)
    if not sampled.size or sampled[0] == 0:
        problem = "marks a first token without a prompt" if sampled.size else "marks no token"
        raise InvalidRecord("sampled", problem, trajectory.id)
    # A target at position p is predicted by the output at p - 1: nobody needs the one at the last.
    tokens = trajectory.tokens
    return _Leaf(number, tokens[: sampled[-1]], sampled, tokens[sampled])


def _alike(one: Tokens, other: Tokens) -> int:
    """How many tokens two rows begin with alike."""
    size = min(one.size, other.size)
    different = np.flatnonzero(one[:size] != other[:size])
    return int(different[0]) if different.size else size


def _build(leaves: Sequence[_Leaf], common: Sequence[int], device: torch.device | None) -> Pack:
    """Lay rows out as a tree; `common` [n] says how far each goes along with the row before it.

    The way of a row is the pieces [start, end) of the pack that its tokens stand in: those of the
    row before it, as far as both are alike, and one of its own.
    """
    ids: list[Tokens] = []
    positions: list[NDArray[np.intp]] = []
    spans: list[Span] = []
    keep: list[NDArray[np.intp]] = []
    way: list[tuple[int, int]] = []
    at = 0
    for leaf, alike in zip(leaves, common, strict=True):
        way = _first_of(way, alike)
        own = leaf.tokens.size - alike
        if own:
            ids.append(leaf.tokens[alike:])
            positions.append(np.arange(alike, leaf.tokens.size))
            spans.append(Span(at, at + own, tuple(way)))
            way = [*way, (at, at + own)]
            at += own
        places = np.concatenate([np.arange(*piece) for piece in way])
        keep.append(places[leaf.sampled - 1])
    sizes = [leaf.sampled.size for leaf in leaves]
    # Rows that said the same so far predict from the same output: it is computed once.
    outputs, by = np.unique(np.concatenate(keep), return_inverse=True)
    return Pack(
        ids=_tensor(ids, device)[None],
        positions=_tensor(positions, device)[None],
        spans=tuple(spans),
        keep=_tensor([outputs], device),
        by=_tensor([by], device),
        targets=_tensor([leaf.targets for leaf in leaves], device),
        rows=_tensor([np.repeat([leaf.row for leaf in leaves], sizes)], device),
        places=_tensor([np.arange(size) for size in sizes], device),
    )


def _first_of(way: Sequence[tuple[int, int]], tokens: int) -> list[tuple[int, int]]:
    """Pieces of a way up to so many tokens, the last of them cut."""
    found = []
    for start, end in way:
        if tokens <= 0:
            break
        found.append((start, min(end, start + tokens)))
        tokens -= end - start
    return found


def _tensor(parts: Sequence[NDArray[Any]], device: torch.device | None) -> torch.Tensor:
    joined = np.concatenate(parts).astype(np.int64)
    return torch.from_numpy(joined).to(device) if device else torch.from_numpy(joined)
