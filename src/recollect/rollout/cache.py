"""Keys and values of many rows of different lengths, in slots.

Each row owns a slot and fills it from position 0, without padding. Running rows occupy the
first slots, so a decoding step works on a view; when a row leaves, the last one moves into its
place. The object takes the part of a transformers cache: attention layers call `update`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_GROWTH = 128  # positions added at a time, at least: attention works on what is filled


@dataclass(frozen=True, slots=True)
class Feed:
    """One forward pass: which tokens of which slots go where.

    Tokens are right-aligned in [B, Q], so that every row's newest token is in the last column.
    The n tokens among those B · Q entries are listed by `batch` and `column`, and stored in
    `into` at `at`.
    """

    positions: torch.Tensor  # [B, Q], 0 where there is no token
    mask: torch.Tensor  # [B, 1, Q, K], True where a query may look
    longest: int  # K
    rows: slice | torch.Tensor  # of the slots: a view where they are 0..B-1, else [B]
    batch: torch.Tensor  # [n]
    column: torch.Tensor  # [n]
    into: torch.Tensor  # [n]
    at: torch.Tensor  # [n]


class SlotCache:
    """Keys and values per layer, [slots, heads, positions, head size]."""

    is_compileable = False

    def __init__(self, slots: int, device: torch.device) -> None:
        self.lengths = [0] * slots
        self._device = device
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._feed: Feed | None = None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the longest row; models ask only where positions were not given."""
        return max(self.lengths)

    def begin(self, slots: list[int], counts: list[int]) -> Feed:
        """Prepare a forward pass that appends `counts` tokens to the rows in `slots`."""
        before = [self.lengths[slot] for slot in slots]
        for slot, length, count in zip(slots, before, counts, strict=True):
            self.lengths[slot] = length + count
        longest = max(self.lengths[slot] for slot in slots)
        chosen, start = torch.tensor(slots), torch.tensor(before)
        if max(counts) == 1:
            positions = start[:, None]
            batch, column = torch.arange(len(slots)), torch.zeros(len(slots), dtype=torch.long)
        else:
            width, added = max(counts), torch.tensor(counts)
            shift = torch.arange(width)[None, :] - (width - added)[:, None]
            positions = (start[:, None] + shift).clamp(min=0)
            batch, column = (shift >= 0).nonzero(as_tuple=True)
        mask = torch.arange(longest)[None, None, :] <= positions[:, :, None]
        is_prefix = slots == list(range(len(slots)))
        self._feed = Feed(
            positions=positions.to(self._device),
            mask=mask[:, None].to(self._device),
            longest=longest,
            rows=slice(len(slots)) if is_prefix else chosen.to(self._device),
            batch=batch.to(self._device),
            column=column.to(self._device),
            into=chosen[batch].to(self._device),
            at=positions[batch, column].to(self._device),
        )
        return self._feed

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new keys and values [B, H, Q, D]; return all that these rows have so far."""
        feed = self._feed
        assert feed is not None, "begin() comes before a forward pass"
        self._reserve(layer_idx, key, value, feed.longest)
        found = []
        for stored, new in ((self._keys[layer_idx], key), (self._values[layer_idx], value)):
            tokens = new[:, :, 0] if new.shape[2] == 1 else new[feed.batch, :, feed.column]
            stored[feed.into, :, feed.at] = tokens
            found.append(stored[feed.rows, :, : feed.longest])
        return found[0], found[1]

    def copy(self, source: int, targets: list[int]) -> None:
        """Give other slots the same past: one prompt, many rows."""
        length = self.lengths[source]
        for stored in (*self._keys, *self._values):
            past = stored[source, :, :length]
            for target in targets:
                stored[target, :, :length].copy_(past)
        for target in targets:
            self.lengths[target] = length

    def release(self, slot: int) -> None:
        """Forget what a slot holds."""
        self.lengths[slot] = 0

    def _reserve(self, layer: int, key: torch.Tensor, value: torch.Tensor, longest: int) -> None:
        """Make room for `longest` positions. New room is zero: a masked NaN would still be NaN."""
        room = longest + max(_GROWTH, longest // 2)
        if layer == len(self._keys):
            slots, heads = len(self.lengths), key.shape[1]
            for store, sample in ((self._keys, key), (self._values, value)):
                store.append(sample.new_zeros(slots, heads, room, sample.shape[-1]))
        elif self._keys[layer].shape[2] < longest:
            for store in (self._keys, self._values):
                old = store[layer]
                new = old.new_zeros(*old.shape[:2], room, old.shape[3])
                new[:, :, : old.shape[2]] = old
                store[layer] = new
