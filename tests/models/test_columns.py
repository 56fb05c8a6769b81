"""Columns beside the layers of a frozen model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recollect.errors import ModelMissing
from recollect.models.columns import Column, Plan, attach, copy_columns, read_plan, route
from recollect.models.loading import load_policy
from train.small import load_small, make_model


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small", layers=2)


def plan_of(small: Path, *widths: int, mode: str = "routed", lateral: bool = True) -> Plan:
    columns = tuple(Column(f"d{n}", width) for n, width in enumerate(widths))
    return Plan(str(small), mode, lateral, columns)  # type: ignore[arg-type]


def logits(policy: object) -> torch.Tensor:
    ids = torch.arange(10, 40)[None]
    with torch.no_grad():
        return policy.model(input_ids=ids).logits  # type: ignore[attr-defined, no-any-return]


def stir(policy: object, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for _, parameter in policy.trainable():  # type: ignore[attr-defined]
            parameter.add_(torch.randn_like(parameter) * 0.3)


@pytest.mark.parametrize("mode", ["routed", "summed"])
def test_a_new_column_changes_nothing_yet(small: Path, tmp_path: Path, mode: str) -> None:
    copy_columns(Path(), tmp_path / "start", plan_of(small, 3, mode=mode))
    policy = load_policy(str(tmp_path / "start"), device="cpu")
    assert torch.equal(logits(policy), logits(load_small(small)))
    assert all(".0." in name for name, _ in policy.trainable())
    stir(policy, 1)
    assert not torch.equal(logits(policy), logits(load_small(small)))


def test_saved_columns_come_back_and_earlier_ones_stay(small: Path, tmp_path: Path) -> None:
    copy_columns(Path(), tmp_path / "a", plan_of(small, 3))
    first = load_policy(str(tmp_path / "a"), device="cpu")
    stir(first, 1)
    (tmp_path / "saved").mkdir()
    first.save(tmp_path / "saved")
    again = load_policy(str(tmp_path / "saved"), device="cpu")
    assert torch.equal(logits(again), logits(first))
    both = plan_of(small, 3, 5)
    copy_columns(tmp_path / "saved", tmp_path / "b", both)
    second = load_policy(str(tmp_path / "b"), device="cpu")
    trainable = {name for name, _ in second.trainable()}
    assert all(".1." in name or ".1_0." in name for name in trainable)
    stir(second, 2)
    assert second.columns == both == read_plan(str(tmp_path / "b"))
    changed = logits(second)
    route(second.model, both, "d0")
    assert torch.equal(logits(second), logits(first))
    route(second.model, both, "somewhere new")
    assert torch.equal(logits(second), changed)


def test_columns_that_do_not_fit_their_list_are_refused(small: Path, tmp_path: Path) -> None:
    copy_columns(Path(), tmp_path / "a", plan_of(small, 3))
    policy = load_policy(str(tmp_path / "a"), device="cpu")
    (tmp_path / "saved").mkdir()
    policy.save(tmp_path / "saved")
    lost, other = plan_of(small, 3, 5), tmp_path / "other"
    for source, plan, why in (
        (tmp_path / "nowhere", lost, "lacks 0.down.0"),
        (tmp_path / "saved", plan_of(small, 4, 5), "size mismatch"),
        (tmp_path / "saved", Plan(str(small), "odd", True, lost.columns), "no mode 'odd'"),  # type: ignore[arg-type]
    ):
        copy_columns(source, other, plan)
        with pytest.raises(ModelMissing, match=why):
            load_policy(str(other), device="cpu")
    second = load_policy(_copied(tmp_path / "saved", tmp_path / "b", lost), device="cpu")
    second.save(tmp_path / "b")
    with pytest.raises(ModelMissing, match=r"has unknown 0\.down\.1"):
        load_policy(_copied(tmp_path / "b", tmp_path / "c", plan_of(small, 3)), device="cpu")
    (tmp_path / "b" / "columns.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelMissing, match=r"columns\.safetensors"):
        load_policy(str(tmp_path / "b"), device="cpu")


def _copied(source: Path, target: Path, plan: Plan) -> str:
    copy_columns(source, target, plan)
    return str(target)


def test_lateral_links_read_the_earlier_column(small: Path) -> None:
    policy = load_small(small)
    attach(policy.model, plan_of(small, 3, 4), seed=0)
    stir(policy, 1)
    before = logits(policy)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if ".down.0." in name:
                parameter.zero_()
    assert not torch.equal(logits(policy), before)


def test_columns_add_up(small: Path) -> None:
    """Summed, h + W_0 a_0 + W_1 a_1: with the second one empty, the first one acts alone."""
    first, both = load_small(small), load_small(small)
    attach(first.model, plan_of(small, 3, mode="summed", lateral=False), seed=0)
    attach(both.model, plan_of(small, 3, 4, mode="summed", lateral=False), seed=0)
    stir(first, 1)
    weights = dict(first.model.named_parameters())
    with torch.no_grad():
        for name, parameter in both.model.named_parameters():
            if ".down.0." in name or ".up.0." in name:
                parameter.copy_(weights[name])
    assert torch.equal(logits(both), logits(first))


def test_a_copy_has_columns_of_its_own(small: Path) -> None:
    import copy

    policy = load_small(small)
    attach(policy.model, plan_of(small, 3), seed=0)
    stir(policy, 1)
    other = copy.deepcopy(policy.model)
    before = logits(policy)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.zero_()
        assert torch.equal(other(input_ids=torch.arange(10, 40)[None]).logits, before)
