from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from models.architectures import ARCHITECTURES, shared_model
from recollect.models.attention import packed
from recollect.models.loading import Lora, Policy, load_policy
from recollect.train.packing import pack
from recollect.train.scorer import (
    Recorded,
    Reference,
    entropies,
    last_hidden,
    log_distributions,
    of_targets,
    target_logprobs,
)

from .rows import make_row
from .small import collect_rows, make_config

CPU = torch.device("cpu")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_hidden_state_is_what_the_output_layer_reads(architecture: str) -> None:
    """At the places that are kept and nowhere else; two passes are caught in order."""
    shared = shared_model(architecture)
    ids, keep = torch.arange(1, 13)[None], torch.tensor([2, 5, 6])
    with torch.no_grad(), last_hidden(shared) as seen:
        logits = shared(input_ids=ids, use_cache=False, logits_to_keep=keep).logits
        shared(input_ids=ids + 1, use_cache=False, logits_to_keep=keep)
    assert seen[0].shape == (1, 3, shared.get_output_embeddings().weight.shape[-1])
    torch.testing.assert_close(shared.get_output_embeddings()(seen[0]), logits)
    assert len(seen) == 2
    assert not torch.equal(seen[0], seen[1])
    shared(input_ids=ids, use_cache=False)
    assert len(seen) == 2, "nothing is caught outside"


def test_the_trainer_agrees_with_the_sampler(policy: Policy, model: Path) -> None:
    """Log-probs and entropies of unchanged weights are those that were recorded."""
    rows = collect_rows(policy, make_config(model, "rollout.temperature=0.7"))
    recorded = Recorded(rows, CPU)
    known = torch.from_numpy(np.concatenate([row.entropies for row in rows]))
    starts = np.cumsum([0, *(row.sampled_count for row in rows)])
    for each in pack(rows, 200):
        with torch.no_grad(), packed(each.spans):
            found = log_distributions(policy.model, each, 0.7)
        torch.testing.assert_close(
            of_targets(found, each), recorded.logprobs(each), rtol=1e-5, atol=1e-5
        )
        places = torch.from_numpy(starts)[each.rows] + each.places
        torch.testing.assert_close(entropies(found, each), known[places], rtol=1e-4, atol=1e-4)


def test_recorded_log_probs_are_found_by_row_and_place() -> None:
    a = make_row([1, 2, 3], [False, True, True], "a", logprobs=[-1.0, -2.0])
    b = make_row([4, 5], [False, True], "b", logprobs=[-3.0])
    (each,) = pack([a, b], 100)
    found = Recorded([a, b], CPU).logprobs(each)
    assert found.tolist() == [-1.0, -2.0, -3.0]
    # In whatever order a pack has them.
    packs = pack([b, a], 2)
    recorded = Recorded([b, a], CPU)
    assert [recorded.logprobs(p).tolist() for p in packs] == [[-1.0, -2.0], [-3.0]]


def test_no_rows_are_no_trouble() -> None:
    assert pack([], 10) == []
    Recorded([], CPU)


def test_rows_without_log_probs_are_refused() -> None:
    row = make_row([1, 2], [False, True])
    object.__setattr__(row, "logprobs", None)
    with pytest.raises(ValueError, match="log-probs"):
        Recorded([row], CPU)


def _shake(policy: Policy) -> None:
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(0.05)


def test_a_reference_stays_where_the_policy_was(policy: Policy) -> None:
    rows = [make_row([1, 2, 3, 4], [False, True, True, True])]
    (each,) = pack(rows, 100)
    before = target_logprobs(policy.model, each, 1.0)
    reference = Reference(policy)
    _shake(policy)
    assert torch.equal(reference.logprobs(each, 1.0), before)
    assert not torch.allclose(target_logprobs(policy.model, each, 1.0), before)


def test_without_its_adapter_a_policy_is_its_own_reference(model: Path) -> None:
    adapted = load_policy(str(model), device="cpu", lora=Lora(2, 4.0))
    plain = load_policy(str(model), device="cpu")
    rows = [make_row([1, 2, 3, 4], [False, True, True, True])]
    (each,) = pack(rows, 100)
    reference = Reference(adapted)
    _shake(adapted)
    assert torch.equal(reference.logprobs(each, 1.0), Reference(plain).logprobs(each, 1.0))
    assert not torch.allclose(
        target_logprobs(adapted.model, each, 1.0), reference.logprobs(each, 1.0)
    )


def test_a_reference_leaves_the_gradient_of_adapters_alone(model: Path) -> None:
    """Switching adapters off between forward and backward pass must not lose anything."""
    rows = [make_row([1, 2, 3, 4], [False, True, True, True])]
    (each,) = pack(rows, 100)
    found = []
    for asks_between in (False, True):
        adapted = load_policy(str(model), device="cpu", lora=Lora(2, 4.0))
        _shake(adapted)
        reference = Reference(adapted)
        with packed(each.spans):
            loss = of_targets(log_distributions(adapted.model, each, 1.0), each).sum()
            if asks_between:
                reference.logprobs(each, 1.0)
            loss.backward()
        found.append([p.grad for _, p in adapted.trainable()])
    assert found[0]
    for plain, asked in zip(*found, strict=True):
        assert plain is not None
        assert torch.equal(plain, asked)


def test_scoring_leaves_no_trace(policy: Policy) -> None:
    """Log-probs of stored tokens are found out without a gradient, and no weight moves."""
    before = [weights.detach().clone() for _, weights in policy.trainable()]
    (each,) = pack([make_row([1, 2, 3, 4], [False, True, True, True])], 100)
    assert not target_logprobs(policy.model, each, 1.0).requires_grad
    for (_, now), then in zip(policy.trainable(), before, strict=True):
        assert now.grad is None
        assert torch.equal(now, then)


def test_scoring_without_gradient_drops_nothing(model: Path) -> None:
    adapted = load_policy(str(model), device="cpu", lora=Lora(2, 4.0, dropout=0.5))
    _shake(adapted)
    (each,) = pack([make_row([1, 2, 3, 4], [False, True, True, True])], 100)
    first = target_logprobs(adapted.model, each, 1.0)
    assert torch.equal(first, target_logprobs(adapted.model, each, 1.0))
    assert adapted.model.training
