from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.rollout.choosing import Chosen, choose
from recollect.types import Sampling

P = torch.tensor([0.125, 0.25, 0.5, 0.0625, 0.0625])
GRID = 64  # every probability above is a multiple of 1 / 64
NEARLY_ONE = math.nextafter(1.0, 0.0)


def _counts(probabilities: torch.Tensor, sampling: Sampling, grid: int = GRID) -> list[int]:
    """Count the tokens drawn at the middles of `grid` equal intervals of [0, 1)."""
    uniforms = (torch.arange(grid, dtype=torch.float64) + 0.5) / grid
    logits = probabilities.log().expand(grid, -1)
    return choose(logits, uniforms, sampling).tokens.bincount(minlength=len(P)).tolist()


def _one(logits: torch.Tensor, u: float, sampling: Sampling) -> Chosen:
    return choose(logits[None], torch.tensor([u], dtype=torch.float64), sampling)


def test_equal_shares_of_random_numbers_give_the_probabilities() -> None:
    assert _counts(P, Sampling()) == [8, 16, 32, 4, 4]


@pytest.mark.parametrize(
    ("u", "token"),
    [
        (0.0, 0),
        (0.1249, 0),
        (0.1251, 1),
        (0.3749, 1),
        (0.3751, 2),
        (0.8751, 3),
        (0.9374, 3),
        (0.9376, 4),
        (NEARLY_ONE, 4),
    ],
)
def test_the_first_token_beyond_the_random_number_is_taken(u: float, token: int) -> None:
    assert _one(P.log(), u, Sampling()).tokens.tolist() == [token]


@pytest.mark.parametrize("u", [0.0, 1e-300, 0.3, 0.5, NEARLY_ONE])
def test_impossible_tokens_are_never_taken(u: float) -> None:
    logits = torch.tensor([-math.inf, -math.inf, 0.0, -math.inf, -1.0, -math.inf])
    chosen = _one(logits, u, Sampling())
    assert chosen.tokens.item() == (4 if u > 0.74 else 2)
    assert math.isfinite(chosen.logprobs.item())
    p = torch.tensor([1.0, math.exp(-1)]) / (1 + math.exp(-1))
    assert chosen.entropies.item() == pytest.approx(float(-(p * p.log()).sum()), abs=1e-6)


_LOGITS = st.lists(
    st.floats(-30, 30, width=32) | st.just(-math.inf), min_size=1, max_size=40
).filter(lambda values: max(values) > -math.inf)
_UNIFORMS = st.floats(0, 1, exclude_max=True) | st.sampled_from([0.0, NEARLY_ONE, 0.5])
_SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 1e-6]),
    top_k=st.sampled_from([0, 1, 2, 7, 100]),
)


@settings(max_examples=200, deadline=None)
@given(logits=_LOGITS, u=_UNIFORMS, sampling=_SAMPLINGS)
def test_whatever_comes_the_token_is_possible(
    logits: list[float], u: float, sampling: Sampling
) -> None:
    tensor = torch.tensor(logits)
    chosen = _one(tensor, u, sampling)
    token = int(chosen.tokens)
    scaled = tensor.double() / (sampling.temperature or 1.0)
    logprobs = torch.log_softmax(scaled, -1)
    assert logits[token] > -math.inf
    assert float(chosen.logprobs) == pytest.approx(float(logprobs[token]), abs=1e-4, rel=1e-5)
    assert float(chosen.logprobs) <= 0
    entropy = float(torch.special.entr(logprobs.exp()).sum())
    assert float(chosen.entropies) == pytest.approx(entropy, abs=1e-4)
    assert float(chosen.entropies) >= 0
    if sampling.temperature == 0 or sampling.top_k == 1 or sampling.top_p == 1e-6:
        assert logits[token] >= max(logits) - 1e-5  # nearly equal ones round to a tie
    clearly_better = tensor > logits[token] + 1e-5
    if sampling.top_k:
        assert int(clearly_better.sum()) < sampling.top_k
    better = float(logprobs.exp()[clearly_better].sum())
    if sampling.temperature and not sampling.top_k:
        assert better <= sampling.top_p + 1e-5


@settings(max_examples=100, deadline=None)
@given(logits=_LOGITS, u=_UNIFORMS)
def test_it_is_the_inverse_of_the_cumulative_distribution(logits: list[float], u: float) -> None:
    tensor = torch.tensor(logits)
    cumulative = np.cumsum(torch.softmax(tensor, -1).double().numpy())
    token = int(_one(tensor, u, Sampling()).tokens)
    # softmax and exp(log_softmax) differ in the last bits, so an edge may lie on either side.
    assert (cumulative[token - 1] if token else 0.0) <= u * cumulative[-1] + 1e-6
    assert cumulative[token] >= u * cumulative[-1] - 1e-6


# -- temperature, top-k, top-p -------------------------------------------------------------


@pytest.mark.parametrize("u", [0.0, 0.4, NEARLY_ONE])
def test_temperature_zero_takes_the_likeliest_and_records_temperature_one(u: float) -> None:
    chosen = _one(P.log(), u, Sampling(temperature=0.0, top_p=0.1, top_k=3))
    assert chosen.tokens.tolist() == [2]
    assert chosen.logprobs.item() == pytest.approx(math.log(0.5))
    assert chosen.entropies.item() == pytest.approx(float(-(P * P.log()).sum()))


def test_temperature_changes_what_is_drawn_and_recorded() -> None:
    sharp = torch.softmax(P.log() / 0.5, -1)  # squares: 4, 16, 64, 1, 1 of 86
    counts = _counts(P, Sampling(temperature=0.5), grid=86)
    assert counts == [4, 16, 64, 1, 1]
    chosen = _one(P.log(), 0.5, Sampling(temperature=0.5))
    assert chosen.logprobs.item() == pytest.approx(float(sharp[2].log()))
    assert chosen.entropies.item() == pytest.approx(float(-(sharp * sharp.log()).sum()))


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (Sampling(top_k=1), {2}),
        (Sampling(top_k=2), {1, 2}),
        (Sampling(top_k=3), {0, 1, 2}),
        (Sampling(top_k=4), {0, 1, 2, 3, 4}),  # the last two are equally likely
        (Sampling(top_k=5), {0, 1, 2, 3, 4}),
        (Sampling(top_k=99), {0, 1, 2, 3, 4}),
        (Sampling(top_p=0.4), {2}),
        (Sampling(top_p=0.51), {1, 2}),
        (Sampling(top_p=0.74), {1, 2}),
        (Sampling(top_p=0.76), {0, 1, 2}),
        (Sampling(top_p=0.9), {0, 1, 2, 3}),  # of the last two, the one with the lower id
        (Sampling(top_p=0.95), {0, 1, 2, 3, 4}),
        (Sampling(top_p=0.65, top_k=2), {2}),  # two thirds of what top-k leaves
        (Sampling(top_p=0.68, top_k=2), {1, 2}),
    ],
)
def test_what_is_cut_is_never_drawn_and_the_rest_keeps_its_shares(
    sampling: Sampling, kept: set[int]
) -> None:
    shares = torch.tensor([float(p) if n in kept else 0.0 for n, p in enumerate(P)])
    grid = int(shares.sum() * GRID)
    assert _counts(P, sampling, grid) == (shares * GRID).int().tolist()
    # What is recorded is the policy itself, which a trainer can compute again.
    chosen = _one(P.log(), 0.0, sampling)
    assert chosen.logprobs.item() == pytest.approx(float(P.log()[chosen.tokens]))
    assert chosen.entropies.item() == pytest.approx(float(-(P * P.log()).sum()))


def test_the_last_random_number_stays_within_what_was_kept() -> None:
    for sampling, last in ((Sampling(top_k=2), 2), (Sampling(top_p=0.6), 2), (Sampling(), 4)):
        assert _one(P.log(), NEARLY_ONE, sampling).tokens.item() == last


# -- rows and bad numbers ------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, 0.9, 20), Sampling(0.0)])
def test_a_row_does_not_depend_on_its_neighbours(sampling: Sampling) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(9, 50, generator=generator)
    uniforms = torch.rand(9, generator=generator, dtype=torch.float64)
    together = choose(logits, uniforms, sampling)
    for row in range(9):
        alone = choose(logits[row : row + 1], uniforms[row : row + 1], sampling)
        assert alone.tokens.item() == together.tokens[row].item()
        assert alone.logprobs.item() == together.logprobs[row].item()
        assert alone.entropies.item() == pytest.approx(together.entropies[row].item(), abs=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, 0.9, 2), Sampling(0.0)])
def test_logits_that_are_no_numbers_are_passed_on(bad: float, sampling: Sampling) -> None:
    logits = torch.tensor([[0.0, bad, 1.0], [0.0, 2.0, 1.0]])
    chosen = choose(logits, torch.tensor([0.5, 0.5], dtype=torch.float64), sampling)
    assert 0 <= chosen.tokens[0] < 3
    assert torch.isnan(chosen.logprobs).tolist() == [True, False]
    assert torch.isnan(chosen.entropies).tolist() == [True, False]


def test_half_precision_is_recorded_in_single_precision() -> None:
    chosen = _one(P.log().bfloat16(), 0.5, Sampling())
    assert chosen.logprobs.dtype == chosen.entropies.dtype == torch.float32


def test_entropy_of_certainty_and_of_ignorance() -> None:
    assert _one(torch.tensor([0.0, 200.0]), 0.5, Sampling()).entropies.item() == 0.0
    assert _one(torch.zeros(8), 0.5, Sampling()).entropies.item() == pytest.approx(math.log(8))
