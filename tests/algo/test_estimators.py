"""Every estimator against exact enumeration: right where it claims to be, biased where it says so.

Expectations are over all sixteen rows of `enumerable`, under the behaviour policy mu; the truth is
the gradient of the expected reward under the current policy pi.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.algo import corrections, losses
from recollect.algo.aggregation import contributions
from recollect.algo.rows import spread
from recollect.algo.surrogate import TokenDiagnostics
from recollect.proof.enumerable import (
    EVERYTHING,
    ROWS,
    expected,
    gradient,
    parameters,
    policy_gradient,
    rewards,
    row_probabilities,
    token_logprobs,
)

from .batches import bounded
from .score_gradient import score_gradient

seeds = st.integers(0, 10_000)
Objective = Callable[..., tuple[Tensor, TokenDiagnostics]]


class Case:
    """A current policy, an older one, and a reward per row."""

    def __init__(self, seed: int, apart: float = 0.7) -> None:
        self.theta = parameters(seed)
        self.behaviour = parameters(seed + 1, apart, around=self.theta)
        self.rewards = rewards(seed)
        self.mu = row_probabilities(self.behaviour).detach()
        self.ratios = (row_probabilities(self.theta).detach() / self.mu).detach()
        self.truth = policy_gradient(self.theta, self.rewards)

    def corrected(self, objective: Objective, **parameters: object) -> Tensor:
        """Gradient of the expected objective, summed over tokens, of rows drawn from mu."""
        per_token, _ = objective(
            token_logprobs(self.theta),
            token_logprobs(self.behaviour).detach(),
            spread(self.rewards, ROWS),
            EVERYTHING,
            **parameters,
        )
        return gradient(expected(per_token, self.behaviour), self.theta)


@bounded
@given(seeds)
def test_sequence_importance_sampling_is_exact(seed: int) -> None:
    case = Case(seed)
    found = case.corrected(corrections.weight, level="sequence", rows=ROWS)
    torch.testing.assert_close(found, case.truth)


@bounded
@given(seeds, st.floats(-3, 3))
def test_a_baseline_changes_nothing_in_expectation(seed: int, baseline: float) -> None:
    case = Case(seed)
    case.rewards = case.rewards - baseline
    found = case.corrected(corrections.weight, level="sequence", rows=ROWS)
    torch.testing.assert_close(found, case.truth)


@bounded
@given(seeds)
def test_bounds_that_never_bind_leave_it_exact(seed: int) -> None:
    case = Case(seed)
    everything = {"level": "sequence", "rows": ROWS}
    huge = float(case.ratios.max()) + 1.0
    truncated = case.corrected(corrections.truncate, cap=huge, **everything)
    masked = case.corrected(corrections.mask_out, low=0.0, high=huge, **everything)
    clipped = case.corrected(
        corrections.clip, off_cliprange_high=huge, low=1.0, dual=None, **everything
    )
    for found in (truncated, masked, clipped):
        torch.testing.assert_close(found, case.truth)


@bounded
@given(seeds)
def test_truncation_has_the_documented_bias(seed: int) -> None:
    case, cap = Case(seed), 1.2
    found = case.corrected(corrections.truncate, cap=cap, level="sequence", rows=ROWS)
    excess = (case.ratios - cap).clamp(min=0.0)
    bias = -score_gradient(case.theta, case.mu * excess * case.rewards)
    torch.testing.assert_close(found, case.truth + bias)


@bounded
@given(seeds)
def test_masking_has_the_documented_bias(seed: int) -> None:
    case = Case(seed)
    found = case.corrected(corrections.mask_out, low=0.7, high=1.4, level="sequence", rows=ROWS)
    outside = (case.ratios < 0.7) | (case.ratios > 1.4)
    bias = -score_gradient(case.theta, case.mu * case.ratios * outside * case.rewards)
    torch.testing.assert_close(found, case.truth + bias)


@bounded
@given(seeds)
def test_clipping_loses_exactly_the_rows_at_a_bound(seed: int) -> None:
    case = Case(seed)
    found = case.corrected(
        corrections.clip, off_cliprange_high=0.3, low=0.2, dual=2.0, level="sequence", rows=ROWS
    )
    good = case.rewards >= 0
    bound = torch.where(good, case.ratios > 1.3, (case.ratios < 0.8) | (case.ratios > 2.0))
    bias = -score_gradient(case.theta, case.mu * case.ratios * bound * case.rewards)
    torch.testing.assert_close(found, case.truth + bias)


@bounded
@given(seeds, st.sampled_from([0.05, 0.1, 1.0]))
def test_shaping_ascends_the_shaped_objective(seed: int, beta: float) -> None:
    """It is the exact gradient of E_mu[f(w) R], which is another objective than E_mu[w R]."""
    case = Case(seed)
    found = case.corrected(corrections.shape, beta=beta, level="sequence", rows=ROWS)
    ratios = row_probabilities(case.theta) / case.mu
    shaped = (case.mu * ratios / (ratios + beta) * case.rewards).sum()
    torch.testing.assert_close(found, gradient(shaped, case.theta))


@bounded
@given(seeds, st.sampled_from([0.05, 0.1, 1.0]))
def test_shaping_on_fresh_rows_is_a_damped_policy_gradient(seed: int, beta: float) -> None:
    case = Case(seed, apart=0.0)
    found = case.corrected(corrections.shape, beta=beta)
    torch.testing.assert_close(found, case.truth * beta / (1 + beta) ** 2)


@bounded
@given(seeds)
def test_token_ratios_are_biased_as_documented(seed: int) -> None:
    """First tokens are judged by what mu did next; second tokens in states as mu visited them."""
    case = Case(seed)
    found = case.corrected(corrections.weight, level="token")
    first_now, second_now = token_logprobs(case.theta).view(16, 2).unbind(1)
    first_old, second_old = token_logprobs(case.behaviour).detach().view(16, 2).unbind(1)
    judged_by_old = ((first_now + second_old).exp() * case.rewards).sum()
    visited_by_old = ((first_old + second_now).exp() * case.rewards).sum()
    documented = gradient(judged_by_old, case.theta)
    documented = documented + gradient(visited_by_old, case.theta)
    torch.testing.assert_close(found, documented)


def test_token_ratios_really_differ_from_the_truth() -> None:
    case = Case(3)
    found = case.corrected(corrections.weight, level="token")
    assert (found - case.truth).norm() > 0.05 * case.truth.norm()


@bounded
@given(seeds)
def test_token_ratios_are_exact_when_only_the_last_token_moved(seed: int) -> None:
    case = Case(seed)
    moved = case.theta.detach().clone()
    moved[4:] = case.behaviour.detach()[4:]
    case.behaviour = moved.requires_grad_()
    found = case.corrected(corrections.weight, level="token")
    torch.testing.assert_close(found[4:], case.truth[4:])


ON_POLICY: dict[str, Objective] = {
    "importance_weighted": losses.importance_weighted,
    "ppo_clip": losses.ppo_clip,
    "dapo": partial(losses.ppo_clip, low=0.2, high=0.28, dual=3.0),
    "gspo": partial(losses.gspo, rows=ROWS),
    "cispo": partial(losses.cispo, high=1.0),
    "topr": partial(losses.topr, rows=ROWS),
}


@pytest.mark.parametrize("name", ON_POLICY)
@bounded
@given(seed=seeds)
def test_on_fresh_rows_every_loss_is_the_policy_gradient(name: str, seed: int) -> None:
    case = Case(seed, apart=0.0)
    torch.testing.assert_close(case.corrected(ON_POLICY[name]), -case.truth)


@bounded
@given(seeds)
def test_reinforce_ignores_who_sampled(seed: int) -> None:
    case = Case(seed)
    loss, _ = losses.reinforce(token_logprobs(case.theta), spread(case.rewards, ROWS), EVERYTHING)
    fresh = gradient(expected(loss, case.theta), case.theta)
    torch.testing.assert_close(fresh, -case.truth)
    replayed = gradient(expected(loss, case.behaviour), case.theta)
    torch.testing.assert_close(replayed, -score_gradient(case.theta, case.mu * case.rewards))


@bounded
@given(seeds)
def test_topr_imitates_the_good_and_tapers_the_bad(seed: int) -> None:
    case = Case(seed)
    found = case.corrected(losses.topr, rows=ROWS)
    good = case.rewards.clamp(min=0.0)
    bad = case.rewards.clamp(max=0.0)
    pi = row_probabilities(case.theta).detach()
    weights = case.mu * good + torch.minimum(pi, case.mu) * bad
    torch.testing.assert_close(found, -score_gradient(case.theta, weights))


@bounded
@given(seeds)
def test_cispo_keeps_the_tokens_that_ppo_silences(seed: int) -> None:
    case = Case(seed)
    new, old = token_logprobs(case.theta), token_logprobs(case.behaviour).detach()
    advantages = spread(case.rewards, ROWS)
    found = case.corrected(losses.cispo, high=0.2, low=0.2)
    weights = (new.detach() - old).exp().clamp(0.8, 1.2)
    score = expected(weights * advantages * new, case.behaviour)
    torch.testing.assert_close(found, -gradient(score, case.theta))


@bounded
@given(seeds)
def test_gspo_on_fresh_rows_divides_by_length_through_aggregation(seed: int) -> None:
    case = Case(seed, apart=0.0)
    loss, _ = losses.gspo(
        token_logprobs(case.theta),
        token_logprobs(case.behaviour).detach(),
        16 * spread(case.mu * case.rewards, ROWS),
        EVERYTHING,
        ROWS,
    )
    total = contributions(loss, ROWS, EVERYTHING, mode="seq-mean-token-mean").sum()
    torch.testing.assert_close(gradient(total, case.theta), -case.truth / 2)
