from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from recollect.models.attention import Span, attend, packed

from .architectures import ARCHITECTURES, VOCABULARY, make_model, shared_model

# Rows as (the row that it continues, how many tokens of that one, how many of its own).
ROWS = ((None, 0, 12), (0, 7, 1), (0, 7, 9), (2, 10, 4), (3, 12, 3), (3, 9, 5), (None, 0, 8))


def _tokens(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (count,), generator=generator)


def _pieces(way: list[int]) -> tuple[tuple[int, int], ...]:
    """Places as ranges [start, end)."""
    starts = [n for n in range(len(way)) if n == 0 or way[n] != way[n - 1] + 1]
    ends = [*starts[1:], len(way)][: len(starts)]
    return tuple((way[a], way[b - 1] + 1) for a, b in zip(starts, ends, strict=True))


class Packed:
    """A packed sequence, and the same rows by themselves."""

    def __init__(self) -> None:
        ids, positions = [], []
        self.rows: list[torch.Tensor] = []
        self.spans: list[Span] = []
        self.places: list[slice] = []  # of a row's own tokens in the packed sequence
        ways: list[list[int]] = []  # where each token of a row stands
        at = 0
        for n, (parent, common, size) in enumerate(ROWS):
            own = _tokens(size, n)
            before = own[:0] if parent is None else self.rows[parent][:common]
            way = [] if parent is None else ways[parent][:common]
            ids.append(own)
            positions.append(torch.arange(common, common + size))
            self.spans.append(Span(at, at + size, _pieces(way)))
            self.places.append(slice(at, at + size))
            self.rows.append(torch.cat((before, own)))
            ways.append([*way, *range(at, at + size)])
            at += size
        self.ids, self.positions = torch.cat(ids)[None], torch.cat(positions)[None]

    def logits(self, model: Any) -> torch.Tensor:
        with packed(self.spans):
            return self._forward(model)

    def _forward(self, model: Any) -> torch.Tensor:
        out: torch.Tensor = model(
            input_ids=self.ids, position_ids=self.positions, use_cache=False
        ).logits[0]
        return out

    def own(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits of the rows' own tokens, end to end."""
        return torch.cat([logits[place] for place in self.places])

    def separate(self, model: Any) -> torch.Tensor:
        found = []
        for row, (_, _, size) in zip(self.rows, ROWS, strict=True):
            found.append(model(input_ids=row[None], use_cache=False).logits[0, -size:])
        return torch.cat(found)


def _loss(logits: torch.Tensor) -> torch.Tensor:
    """Weigh every logit differently, so that no error cancels."""
    weights = torch.linspace(-1, 1, logits.numel()).reshape(logits.shape)
    return (torch.log_softmax(logits, -1) * weights).sum()


def _gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    return found


def _assert_same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    for name, gradient in wanted.items():
        scale = gradient.abs().max().clamp(min=1.0)
        torch.testing.assert_close(found[name] / scale, gradient / scale, atol=2e-5, rtol=0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_rows_equal_rows_by_themselves(architecture: str) -> None:
    model, batch = shared_model(architecture), Packed()
    found, wanted = batch.own(batch.logits(model)), batch.separate(model)
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-5)
    # What a row sees matters to these models: without its prompt it says something else.
    assert (batch.own(batch._forward(model)) - wanted).abs().max() > 0.1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packed_gradients_equal_those_of_rows_by_themselves(architecture: str) -> None:
    model, batch = make_model(architecture), Packed()
    with packed(batch.spans):
        _loss(batch.own(batch._forward(model))).backward()
    found = _gradients(model)
    _loss(batch.separate(model)).backward()
    _assert_same(found, _gradients(model))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradient_checkpointing_changes_nothing(architecture: str) -> None:
    model, batch = make_model(architecture), Packed()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    with packed(batch.spans):
        _loss(batch.own(batch._forward(model))).backward()
    plain = _gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with packed(batch.spans):
        _loss(batch.own(batch._forward(model))).backward()
    _assert_same(_gradients(model), plain)


def test_a_backward_pass_in_another_thread_finds_the_layout() -> None:
    # On a GPU the autograd engine runs checkpointed layers again in threads of its own.
    model, batch = make_model("llama-gqa"), Packed()
    model.train()
    _loss(batch.own(batch.logits(model))).backward()
    plain = _gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    with packed(batch.spans):
        loss = _loss(batch.own(batch._forward(model)))
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    _assert_same(_gradients(model), plain)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_a_layout_it_is_ordinary_attention(architecture: str) -> None:
    ours, theirs = shared_model(architecture), make_model(architecture, attention="sdpa")
    ids = torch.stack([_tokens(11, 1), _tokens(11, 2)])
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["llama-gqa", "gpt2"])
def test_padding_masks_of_transformers_are_obeyed(architecture: str) -> None:
    ours, theirs = shared_model(architecture), make_model(architecture, attention="sdpa")
    ids = torch.stack([_tokens(9, 1), _tokens(9, 2)])
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    found = ours(ids, attention_mask=mask).logits[:, 4:]
    wanted = theirs(ids, attention_mask=mask).logits[:, 4:]
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["llama-gqa", "gpt2"])
def test_generate_of_transformers_works_with_it(architecture: str) -> None:
    ours, theirs = shared_model(architecture), make_model(architecture, attention="sdpa")
    ids = torch.stack([_tokens(6, 1), _tokens(6, 2)])
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    found = ours.generate(ids, attention_mask=mask, **options)
    assert found.tolist() == theirs.generate(ids, attention_mask=mask, **options).tolist()


def test_a_pass_with_its_own_mask_takes_no_notice_of_the_layout() -> None:
    model, ids = shared_model("llama"), _tokens(5, 3)[None]
    mask = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    with packed((Span(0, 2), Span(2, 5))):
        found = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(found, model(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "spans",
    [(), (Span(0, 4),), (Span(1, 5),), (Span(0, 3), Span(4, 5)), (Span(0, 3), Span(2, 5))],
)
def test_a_layout_that_does_not_tile_the_sequence_is_refused(spans: tuple[Span, ...]) -> None:
    with packed(spans), pytest.raises(ValueError, match="does not tile a sequence of 5 tokens"):
        shared_model("llama")(_tokens(5, 0)[None], use_cache=False)


def test_a_layout_ends_with_its_block_even_after_an_error() -> None:
    model, ids = shared_model("llama"), _tokens(5, 0)[None]
    wanted = model(ids).logits
    with pytest.raises(ValueError, match="tile"), packed((Span(0, 1),)):
        model(ids, use_cache=False)
    torch.testing.assert_close(model(ids).logits, wanted)


def _heads(count: int, tokens: int, seed: int) -> torch.Tensor:
    return torch.randn(2, count, tokens, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shared", [1, 2, 6])
@pytest.mark.parametrize("width", [1, 3])
def test_shared_heads_equal_repeated_ones(shared: int, width: int) -> None:
    query, key, value = _heads(6, width, 0), _heads(shared, 7, 1), _heads(shared, 7, 2)
    mask = torch.rand(2, 1, width, 7, generator=torch.Generator().manual_seed(3)) < 0.7
    mask[..., 0] = True
    found, _ = attend(torch.nn.Module(), query, key, value, mask, scaling=0.3)
    repeated = [t.repeat_interleave(6 // shared, dim=1) for t in (key, value)]
    wanted = torch.nn.functional.scaled_dot_product_attention(
        query, *repeated, attn_mask=mask, scale=0.3
    )
    torch.testing.assert_close(found, wanted.transpose(1, 2))


@pytest.mark.parametrize("name", ["softcap", "s_aux", "position_bias"])
def test_variants_of_attention_that_we_do_not_compute_are_refused(name: str) -> None:
    heads = _heads(2, 3, 0)
    with pytest.raises(NotImplementedError, match=name):
        attend(torch.nn.Module(), heads, heads, heads, None, **{name: 30.0})


def test_rows_beyond_a_sliding_window_are_refused() -> None:
    heads = _heads(2, 6, 0)
    attend(torch.nn.Module(), heads, heads, heads, None, sliding_window=6)
    with pytest.raises(NotImplementedError, match="last 5 tokens, a row has 6"):
        attend(torch.nn.Module(), heads, heads, heads, None, sliding_window=5)
    with packed((Span(0, 3), Span(3, 5, ((0, 3),)), Span(5, 6, ((0, 3),)))):
        attend(torch.nn.Module(), heads, heads, heads, None, sliding_window=5)
    with packed((Span(0, 4), Span(4, 6, ((0, 4),)))), pytest.raises(NotImplementedError):
        attend(torch.nn.Module(), heads, heads, heads, None, sliding_window=5)
