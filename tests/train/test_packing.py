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
    before = [place for piece in span.prefix for place in range(*piece)]
    places = [*before, *range(span.start, place + 1)]
    return each.ids[0, places].tolist(), each.positions[0, places].tolist()


def check_packs(packs: Sequence[Pack], rows: Sequence[Trajectory], max_tokens: int) -> None:
    """Every sampled token is predicted once, from exactly what stood before it in its row."""
    seen = set()
    for each in packs:
        for keep, target, number, place in zip(
            each.keep[each.by].tolist(),
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


@settings(max_examples=200, deadline=None)
@given(
    rows=row_sets(),
    max_tokens=st.integers(1, 60),
    share=st.booleans(),
    least=st.integers(0, 5),
)
def test_every_sampled_token_once(
    rows: list[Trajectory], max_tokens: int, share: bool, least: int
) -> None:
    packs = pack(rows, max_tokens, share, least_common=least)
    check_packs(packs, rows, max_tokens)
    assert sum(each.tokens for each in packs) <= sum(_computed(row) for row in rows)


def _computed(row: Trajectory) -> int:
    """Tokens of a row that must go through the model: the last sampled one predicts nothing."""
    return int(np.flatnonzero(row.sampled)[-1])


@settings(max_examples=100, deadline=None)
@given(rows=row_sets())
def test_one_pack_computes_each_beginning_once(rows: list[Trajectory]) -> None:
    """As many tokens as the tree of the rows has nodes."""
    (each,) = pack(rows, 10_000, least_common=1)
    ways = {tuple(row.tokens[: n + 1].tolist()) for row in rows for n in range(_computed(row))}
    assert each.tokens == len(ways)


def test_a_shared_prompt_stands_once() -> None:
    prompt = [1] * 20
    rows = [make_row([*prompt, n, 2, 3], [False] * 20 + [True] * 3, str(n)) for n in range(4)]
    (shared,) = pack(rows, 1000)
    # The last token of a row predicts nothing that trains.
    assert shared.tokens == 20 + 4 * 2
    (apart,) = pack(rows, 1000, share=False)
    assert apart.tokens == 4 * 22


def test_tasks_of_a_domain_share_its_rules_and_groups_their_task() -> None:
    rules = list(range(30))
    rows = [
        make_row([*rules, 40 + task, 50, 60 + n, 70], [False] * 32 + [True] * 2, f"{task}-{n}")
        for n in range(3)
        for task in range(2)
    ]
    (each,) = pack(rows, 1000)
    assert each.tokens == 30 + 2 * 2 + 6
    check_packs([each], rows, 1000)


def test_what_rows_said_alike_is_shared_too() -> None:
    rows = [
        make_row([*range(20), 30, 31, n, 32], [False] * 20 + [True] * 4, str(n)) for n in range(2)
    ]
    (each,) = pack(rows, 100)
    assert each.tokens == 22 + 2
    assert each.keep.tolist() == [19, 20, 21, 22, 23]
    assert each.by.tolist() == [0, 1, 2, 3, 0, 1, 2, 4]
    check_packs([each], rows, 100)


def test_a_few_common_tokens_are_not_worth_sharing() -> None:
    rows = [make_row([1, 2, 3, n, 9], [False] * 4 + [True], str(n)) for n in range(2)]
    (each,) = pack(rows, 100)
    assert [span.prefix for span in each.spans] == [(), ()]


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [
        make_row([*range(16), n // 3, n % 3, 5], [False] * 17 + [True] * 2, str(n))
        for n in range(9)
    ]
    wanted = [(each.ids.tolist(), each.spans) for each in pack(rows, 26)]
    found = [(each.ids.tolist(), each.spans) for each in pack(rows[::-1], 26)]
    assert len(wanted) > 1
    assert found == wanted


def test_the_limit_counts_the_prompt_of_every_pack() -> None:
    rows = [make_row([*[1] * 16, n, n], [False] * 16 + [True] * 2, str(n)) for n in range(5)]
    packs = pack(rows, 18)
    # Sixteen tokens of prompt leave room for two rows of one token each.
    assert [each.tokens for each in packs] == [18, 18, 17]
    check_packs(packs, rows, 18)


def test_short_rows_behind_long_rules_do_not_all_go_into_one_pack() -> None:
    """Each row keeps a copy of the keys and values it sees, so what all see together is bounded."""
    rules = list(range(90))
    rows = [make_row([*rules, n, 1], [False] * 90 + [True] * 2, str(n)) for n in range(40)]
    packs = pack(rows, 100)
    assert max(each.tokens for each in packs) <= 100
    assert [sum(span.reach for span in each.spans) for each in packs] == [4 * 91] * 10
    check_packs(packs, rows, 100)


def test_what_many_rows_said_alike_is_predicted_once() -> None:
    """Logits are what memory goes into: no more of them than the pack has tokens."""
    rows = [
        make_row([*range(20), *range(10)], [False] * 20 + [True] * 10, str(n)) for n in range(50)
    ]
    packs = pack(rows, 40)
    assert all(len(each.keep) <= each.tokens <= 40 for each in packs)
    check_packs(packs, rows, 40)


def test_a_row_longer_than_the_limit_goes_alone() -> None:
    short = make_row([1, 2], [False, True], "short")
    long = make_row(list(range(50)), [False] + [True] * 49, "long")
    packs = pack([short, long, short], 8)
    assert [sorted(set(each.rows.tolist())) for each in packs] == [[1], [0, 2]]
    check_packs(packs, [short, long, short], 8)


def test_rows_of_one_sampled_token() -> None:
    rows = [make_row([*[7] * 17, n], [False] * 17 + [True], str(n)) for n in range(3)]
    (each,) = pack(rows, 100)
    assert each.tokens == 17  # the prompt, and nothing of the rows themselves
    assert each.keep.tolist() == [16]
    assert each.by.tolist() == [0, 0, 0]
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
    """Three tasks of one domain, four rows each, some of which say the same to begin with."""
    rng = np.random.default_rng(3)
    rules = rng.integers(0, 60, 18)
    rows = []
    for group, length in enumerate((9, 5, 14)):
        prompt = [*rules, *rng.integers(0, 60, length)]
        said = [*rng.integers(0, 60, 3)]
        for number in range(4):
            rest = int(rng.integers(1, 12))
            mask = rng.random(rest) < 0.6
            mask[0] = True
            tokens = [*prompt, *said[: number % 4], *rng.integers(0, 60, rest)]
            sampled = [False] * len(prompt) + [True] * (number % 4) + list(mask)
            rows.append(make_row(tokens, sampled, f"{group}-{number}"))
    return rows


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("max_tokens", [10_000, 60])
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
