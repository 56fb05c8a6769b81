from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import InvalidRecord
from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.train.packing import Pack, pack
from recollect.train.scorer import log_distributions, of_targets
from recollect.trajectory import Trajectory

from .rows import make_row
from .small import load_small, make_model


@st.composite
def row_sets(draw: st.DrawFn) -> list[Trajectory]:
    """Rows of a few groups over a small vocabulary, so that beginnings often coincide."""
    rows = []
    token = st.integers(0, 2)
    for group in range(draw(st.integers(1, 3))):
        prompt = draw(st.lists(token, min_size=1, max_size=6))
        for number in range(draw(st.integers(1, 4))):
            rest = draw(st.lists(st.tuples(token, st.booleans()), max_size=8))
            tokens = [*prompt, draw(token), *(t for t, _ in rest)]
            sampled = [False] * len(prompt) + [True] + [s for _, s in rest]
            rows.append(make_row(tokens, sampled, f"{group}-{number}", f"group-{group}"))
    return rows


def seen_at(each: Pack, place: int) -> tuple[list[int], list[int]]:
    """Tokens and positions that the model has read when it speaks at a place of a pack."""
    span = next(s for s in each.spans if s.start <= place < s.end)
    before = list(range(*span.prefix)) if span.prefix else []
    places = before + list(range(span.start, place + 1))
    return each.ids[0, places].tolist(), each.positions[0, places].tolist()


def check_packs(packs: Sequence[Pack], rows: Sequence[Trajectory], max_tokens: int) -> None:
    """Every sampled token is predicted once, from exactly what stood before it in its row."""
    seen = set()
    for each in packs:
        for keep, target, number, place in zip(
            each.keep.tolist(),
            each.targets.tolist(),
            each.rows.tolist(),
            each.places.tolist(),
            strict=True,
        ):
            tokens = rows[number].tokens.tolist()
            position = int(np.flatnonzero(rows[number].sampled)[place])
            assert target == tokens[position]
            assert seen_at(each, keep) == (tokens[:position], list(range(position)))
            assert (number, place) not in seen
            seen.add((number, place))
        assert [s.start for s in each.spans] == [0, *(s.end for s in each.spans[:-1])]
        assert each.spans[-1].end == each.tokens
        assert each.tokens <= max_tokens or len(set(each.rows.tolist())) == 1
    assert len(seen) == sum(row.sampled_count for row in rows)


@settings(max_examples=80, deadline=None)
@given(rows=row_sets(), max_tokens=st.integers(1, 60), share=st.booleans())
def test_every_sampled_token_once(rows: list[Trajectory], max_tokens: int, share: bool) -> None:
    check_packs(pack(rows, max_tokens, share), rows, max_tokens)


@settings(max_examples=80, deadline=None)
@given(rows=row_sets(), max_tokens=st.integers(1, 60), data=st.data())
def test_any_beginnings_will_do(
    rows: list[Trajectory], max_tokens: int, data: st.DataObject
) -> None:
    beginnings = [data.draw(st.integers(0, row.tokens.size)) for row in rows]
    check_packs(pack(rows, max_tokens, True, beginnings=beginnings), rows, max_tokens)


def test_a_shared_prompt_stands_once() -> None:
    prompt = [1] * 10
    rows = [make_row([*prompt, 2, 3, n], [False] * 10 + [True] * 3, str(n)) for n in range(4)]
    (shared,) = pack(rows, 1000)
    # The last token of a row predicts nothing that trains.
    assert shared.tokens == 10 + 4 * 2
    (apart,) = pack(rows, 1000, share=False)
    assert apart.tokens == 4 * 12


def test_longer_beginnings_share_more() -> None:
    rows = [make_row([1, 2, 3, 4, n], [False, True, False, True, True], str(n)) for n in range(2)]
    (by_prompt,) = pack(rows, 100)
    (by_turn,) = pack(rows, 100, beginnings=[3, 3])
    assert by_prompt.tokens == 1 + 3 + 3
    assert by_turn.tokens == 3 + 1 + 1
    check_packs([by_turn], rows, 100)


def test_the_limit_counts_the_prompt_of_every_pack() -> None:
    rows = [make_row([1, 1, 1, 1, n, n], [False] * 4 + [True] * 2, str(n)) for n in range(5)]
    packs = pack(rows, 6)
    # Four tokens of prompt leave room for two rows of one token each.
    assert [each.tokens for each in packs] == [6, 6, 5]
    check_packs(packs, rows, 6)


def test_a_row_longer_than_the_limit_goes_alone() -> None:
    short = make_row([1, 2], [False, True], "short")
    long = make_row(list(range(50)), [False] + [True] * 49, "long")
    packs = pack([short, long, short], 8)
    # Rows that begin alike stay together, whatever stands between them.
    assert [sorted(set(each.rows.tolist())) for each in packs] == [[0, 2], [1]]
    check_packs(packs, [short, long, short], 8)


def test_rows_of_one_sampled_token() -> None:
    rows = [make_row([7, 8, n], [False, False, True], str(n)) for n in range(3)]
    (each,) = pack(rows, 100)
    assert each.tokens == 2  # the prompt, and nothing of the rows themselves
    assert each.keep.tolist() == [1, 1, 1]
    assert each.targets.tolist() == [0, 1, 2]


def test_no_rows_make_no_packs() -> None:
    assert pack([], 10) == []


def test_what_cannot_be_predicted_is_refused() -> None:
    """No such row can be made; a frame that somebody else wrote is not checked again."""
    with pytest.raises(InvalidRecord, match="eager"):
        make_row([1, 2], [True, True], "eager")
    row = make_row([1, 2], [False, True], "eager")
    object.__setattr__(row, "sampled", np.array([True, False]))
    with pytest.raises(InvalidRecord, match="eager"):
        pack([row], 10)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """Two layers, so that what one token should not see could reach it in the second."""
    return load_small(make_model(tmp_path_factory.mktemp("model") / "two", layers=2))


def _alone(model: torch.nn.Module, row: Trajectory) -> torch.Tensor:
    """Log-probs of a row's sampled tokens by the plainest forward pass there is."""
    ids = torch.from_numpy(row.tokens.astype(np.int64))[None]
    logits = model(input_ids=ids, use_cache=False).logits[0].float()
    logprobs = torch.log_softmax(logits[:-1], dim=-1)
    places = torch.from_numpy(np.flatnonzero(row.sampled))
    return logprobs[places - 1, ids[0, places]]


def _gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def _rows_to_compare() -> list[Trajectory]:
    rng = np.random.default_rng(3)
    rows = []
    for group, length in enumerate((9, 5, 14)):
        prompt = rng.integers(0, 60, length)
        for number in range(4):
            rest = int(rng.integers(1, 12))
            mask = rng.random(rest) < 0.6
            mask[0] = True
            tokens = [*prompt, *rng.integers(0, 60, rest)]
            sampled = [False] * length + list(mask)
            rows.append(make_row(tokens, sampled, f"{group}-{number}"))
    return rows


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("max_tokens", [10_000, 40])
def test_packed_equals_row_by_row(policy: Policy, share: bool, max_tokens: int) -> None:
    rows = _rows_to_compare()
    model = policy.model
    model.zero_grad()
    weights = [torch.linspace(-1, 1, row.sampled_count) for row in rows]
    expected = [_alone(model, row) for row in rows]
    sum((e * w).sum() for e, w in zip(expected, weights, strict=True)).backward()
    plain = _gradients(model)
    model.zero_grad()
    for each in pack(rows, max_tokens, share):
        with packed(each.spans):
            found = of_targets(log_distributions(model, each, 1.0), each)
            pairs = list(zip(each.rows.tolist(), each.places.tolist(), strict=True))
            wanted = torch.stack([expected[r][p] for r, p in pairs])
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
            (found * torch.stack([weights[r][p] for r, p in pairs])).sum().backward()
    for name, gradient in _gradients(model).items():
        torch.testing.assert_close(gradient, plain[name], rtol=1e-4, atol=1e-5, msg=name)


def test_shared_beginnings_with_sampled_tokens_equal_row_by_row(policy: Policy) -> None:
    common = [5, 6, 7, 8, 9, 10]
    mask = [False, False, True, True, False, False, True, True]
    rows = [make_row([*common, 20 + n, 30 + n], mask, str(n)) for n in range(3)]
    (each,) = pack(rows, 1000, beginnings=[6, 6, 6])
    with torch.no_grad():
        wanted = [_alone(policy.model, row) for row in rows]
        with packed(each.spans):
            found = of_targets(log_distributions(policy.model, each, 1.0), each)
    for value, number, place in zip(found, each.rows, each.places, strict=True):
        torch.testing.assert_close(value, wanted[int(number)][int(place)], rtol=1e-5, atol=1e-5)
