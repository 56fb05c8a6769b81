"""One attention function for generating and for training, for every Hugging Face model.

Generating, rows of different lengths share a batch; the caller passes a four-dimensional mask.
Training, rows lie end to end in one sequence without padding, and several rows may share what they
begin with. A block mask for that would cost memory and time quadratic in the whole sequence, so
the attention of each span is computed by itself, over the pieces that it may see.

The function is registered with transformers once, under the name `ATTENTION`. The layout of the
sequence at hand stands in a variable of this module, because not every architecture hands keyword
arguments down to its attention, and because a backward pass on a GPU runs checkpointed layers
again in threads of its own, which see no thread's or context's variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

ATTENTION = "recollect"

# Variants of attention that we do not compute. Some models ask for them by these arguments.
_UNKNOWN_VARIANTS = ("softcap", "s_aux", "position_bias")


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, end) of a packed sequence; `prefix` are the pieces that they continue."""

    start: int
    end: int
    prefix: tuple[tuple[int, int], ...] = ()

    @property
    def before(self) -> int:
        """How many tokens it continues."""
        return sum(end - start for start, end in self.prefix)

    @property
    def reach(self) -> int:
        """How many tokens its last one sees, itself included."""
        return self.before + self.end - self.start


class _Layout:
    """Spans that tile a sequence, and the parts it is cut into at all of their edges.

    Keys and values are cut once, and every span puts together the parts that it sees: were each to
    take its own slices, the backward pass would write a whole sequence of zeros for every one.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = tuple(spans)
        pieces = {piece for span in spans for piece in (*span.prefix, (span.start, span.end))}
        edges = sorted({0, *(edge for piece in pieces for edge in piece)})
        part = {edge: number for number, edge in enumerate(edges)}
        self.sizes = [after - before for before, after in pairwise(edges)]
        self.seen = [  # by each span: the numbers of the parts, its own last
            [
                number
                for start, end in (*span.prefix, (span.start, span.end))
                for number in range(part[start], part[end])
            ]
            for span in spans
        ]
        self._masks: dict[tuple[int, int, torch.device], torch.Tensor] = {}

    def mask(self, span: Span, device: torch.device) -> torch.Tensor:
        """Let each of a span's queries see all that it continues, and its own past."""
        own, before = span.end - span.start, span.before
        known = self._masks.get((own, before, device))
        if known is None:
            ones = torch.ones(own, before + own, dtype=torch.bool, device=device)
            known = self._masks[own, before, device] = ones.tril(diagonal=before)
        return known


_layout: _Layout | None = None


@contextmanager
def packed(spans: Sequence[Span]) -> Iterator[None]:
    """Attend by spans inside; keep it open until the backward pass is done (checkpointing).

    The layout holds for the whole process: one packed pass at a time. Passes that bring their
    own mask, as generation does, take no notice of it.
    """
    global _layout  # noqa: PLW0603 - see the top of the file
    before, _layout = _layout, _Layout(spans)
    try:
        yield
    finally:
        _layout = before


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **more: object,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention over query [B, H, Q, D] and key, value [B, H', K, D].

    `attention_mask` is boolean [B, 1, Q, K], True where a query may look. Returns [B, Q, H, D].
    """
    for name in _UNKNOWN_VARIANTS:
        if more.get(name) is not None:
            raise NotImplementedError(f"{type(module).__name__} needs attention with {name}")
    window = more.get("sliding_window")
    if attention_mask is not None:
        _check_window(module, window, key.shape[2])
        return _masked(query, key, value, attention_mask, dropout, scaling).transpose(1, 2), None
    key, value = _repeated(key, query), _repeated(value, query)
    if _layout is None:
        _check_window(module, window, key.shape[2])
        output = scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, scale=scaling, is_causal=query.shape[2] > 1
        )
        return output.transpose(1, 2), None
    _check_tiles(_layout.spans, query.shape[2])
    _check_window(module, window, max(span.reach for span in _layout.spans))
    output = _attend_spans(_layout, query, key, value, dropout, scaling)
    return output.transpose(1, 2), None


def _check_tiles(spans: tuple[Span, ...], tokens: int) -> None:
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), tokens]
    if edges[::2] != edges[1::2]:
        raise ValueError(f"the layout does not tile a sequence of {tokens} tokens")


def _check_window(module: torch.nn.Module, window: object, longest: int) -> None:
    """Refuse what a sliding window would hide: our masks and spans let every token see all."""
    if isinstance(window, int) and longest > window:
        raise NotImplementedError(
            f"{type(module).__name__} sees only the last {window} tokens, a row has {longest}"
        )


def _repeated(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Give every query head its own copy of the keys or values that several of them share."""
    repeat = query.shape[1] // tensor.shape[1]
    return tensor.repeat_interleave(repeat, dim=1) if repeat > 1 else tensor


def _masked(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    dropout: float,
    scaling: float | None,
) -> torch.Tensor:
    """Attend where a mask allows it.

    Query heads that share keys become queries of one head. A decoding step would otherwise copy
    the whole cache, several times over.
    """
    batch, heads, width, size = query.shape
    shared = key.shape[1]
    repeat = heads // shared
    if repeat > 1:
        query = query.reshape(batch, shared, repeat * width, size)
        wide = mask.expand(-1, -1, repeat, -1) if width == 1 else mask.repeat(1, 1, repeat, 1)
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=wide if repeat > 1 else mask, dropout_p=dropout, scale=scaling
    )
    return output.reshape(batch, heads, width, -1)


def _attend_spans(
    layout: _Layout,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    scaling: float | None,
) -> torch.Tensor:
    """Attend span by span, each over the parts that it sees."""
    own_sizes = [span.end - span.start for span in layout.spans]
    queries = torch.split_with_sizes(query, own_sizes, dim=2)
    keys = torch.split_with_sizes(key, layout.sizes, dim=2)
    values = torch.split_with_sizes(value, layout.sizes, dim=2)
    found = []
    for span, own, seen in zip(layout.spans, queries, layout.seen, strict=True):
        output = scaled_dot_product_attention(
            own,
            _joined([keys[part] for part in seen]),
            _joined([values[part] for part in seen]),
            attn_mask=layout.mask(span, query.device) if span.prefix else None,
            dropout_p=dropout,
            scale=scaling,
            is_causal=not span.prefix,
        )
        found.append(output)
    return torch.cat(found, dim=2)


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Make the mask of a pass that brings none of four dimensions; a layout stands for itself."""
    return None if _layout is not None else sdpa_mask(*args, **kwargs)


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, _mask)
