"""Packing rows without padding, with each shared prompt computed once.

Rows of a group begin with the same tokens. In a pack the common beginning stands once, followed
by what is different of each row; `models.attention` lets every continuation see the beginning
and itself. Tokens after a row's last sampled token predict nothing that trains and are left out.
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
from recollect.trajectory import Trajectory


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """One sequence for the model, and where its trained tokens are.

    `ids` and `positions` are [1, N]. The model's output at `keep` [n] predicts `targets` [n];
    `rows` [n] says which row of the minibatch each target belongs to, and `places` [n] which of
    that row's sampled tokens it is.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    spans: tuple[Span, ...]
    keep: torch.Tensor
    targets: torch.Tensor
    rows: torch.Tensor
    places: torch.Tensor

    @property
    def tokens(self) -> int:
        """Length of the sequence."""
        return int(self.ids.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A row's share of a pack: its number, its trajectory, and how much of it is common."""

    row: int
    trajectory: Trajectory
    common: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.common


def pack(
    trajectories: Sequence[Trajectory],
    max_tokens: int,
    share: bool = True,
    device: torch.device | None = None,
    beginnings: Sequence[int] | None = None,
) -> list[Pack]:
    """Pack rows into sequences of at most `max_tokens` (one row alone may be longer).

    With `share`, rows that begin with the same tokens have them computed once: up to the first
    sampled token, or up to `beginnings` [len(trajectories)] where those are given.
    """
    packs: list[Pack] = []
    blocks: list[list[_Part]] = []
    used = 0
    for family in _families(trajectories, share, beginnings):
        block: list[_Part] | None = None  # of this family, in the pack being filled
        for part in family:
            needed = part.size + (part.common if block is None else 0)
            if used and used + needed > max_tokens:
                packs.append(_build(blocks, device))
                blocks, block, used = [], None, 0
                needed = part.size + part.common
            if block is None:
                block = []
                blocks.append(block)
            block.append(part)
            used += needed
    if blocks:
        packs.append(_build(blocks, device))
    return packs


def blank(device: torch.device | None = None) -> Pack:
    """Make a pack of one token that belongs to no row; its loss must count for nothing."""
    zero = torch.zeros(1, dtype=torch.int64, device=device)
    return Pack(zero[None], zero[None], (Span(0, 1),), zero, zero, zero, zero)


def _families(
    trajectories: Sequence[Trajectory], share: bool, beginnings: Sequence[int] | None
) -> list[list[_Part]]:
    """Group rows by the tokens they have in common, in order of appearance."""
    families: dict[bytes | int, list[_Part]] = {}
    for number, trajectory in enumerate(trajectories):
        sampled = np.flatnonzero(trajectory.sampled)
        if not sampled.size or sampled[0] == 0:
            problem = "marks a first token without a prompt" if sampled.size else "marks no token"
            raise InvalidRecord("sampled", problem, trajectory.id)
        first, last = int(sampled[0]), int(sampled[-1])
        # A beginning that outlasts the row's last prediction would leave the row less than
        # nothing of its own.
        common = min(first if beginnings is None else beginnings[number], last) if share else 0
        key = trajectory.tokens[:common].tobytes() if common else number
        families.setdefault(key, []).append(_Part(number, trajectory, common, last))
    return list(families.values())


def _build(blocks: list[list[_Part]], device: torch.device | None) -> Pack:
    ids: list[NDArray[np.integer[Any]]] = []
    positions: list[NDArray[np.integer[Any]]] = []
    spans: list[Span] = []
    keep: list[NDArray[np.integer[Any]]] = []
    targets: list[NDArray[np.integer[Any]]] = []
    rows: list[NDArray[np.integer[Any]]] = []
    places: list[NDArray[np.integer[Any]]] = []
    at = 0
    for block in blocks:
        common = block[0].common
        beginning: tuple[int, int] | None = None
        if common:
            ids.append(block[0].trajectory.tokens[:common])
            positions.append(np.arange(common))
            beginning = (at, at + common)
            spans.append(Span(at, at + common))
            at += common
        for part in block:
            tokens, end = part.trajectory.tokens, part.end
            sampled = np.flatnonzero(part.trajectory.sampled)
            if part.size:
                ids.append(tokens[common:end])
                positions.append(np.arange(common, end))
                spans.append(Span(at, at + part.size, beginning))
            # A target at position p of the row is predicted by the output at p - 1: in the
            # beginning for the first one, in the row's own span for the others.
            before = sampled - 1
            own = before - common + at
            shared = before + (beginning[0] if beginning else at)
            keep.append(np.where(before < common, shared, own))
            targets.append(tokens[sampled])
            rows.append(np.full(len(sampled), part.row))
            places.append(np.arange(len(sampled)))
            at += part.size
    return Pack(
        ids=_tensor(ids, device)[None],
        positions=_tensor(positions, device)[None],
        spans=tuple(spans),
        keep=_tensor(keep, device),
        targets=_tensor(targets, device),
        rows=_tensor(rows, device),
        places=_tensor(places, device),
    )


def _tensor(parts: list[NDArray[np.integer[Any]]], device: torch.device | None) -> torch.Tensor:
    joined = np.concatenate(parts).astype(np.int64)
    return torch.from_numpy(joined).to(device) if device else torch.from_numpy(joined)
