"""What kind a task is, on a stand-in for tau2's objects: tau2-bench itself need not be here."""

from __future__ import annotations

from types import SimpleNamespace as Thing
from typing import Any

import pytest

from recollect.envs.tau2.criteria import TRANSFER, kind_of


def domain_with(*calls: str, judged: bool = False) -> Any:
    basis = [Thing(value="NL_ASSERTION")] if judged else []
    actions = [Thing(name=name, arguments={}, requestor="assistant") for name in calls]
    criteria = Thing(reward_basis=basis, nl_assertions=["It is polite."], actions=actions)
    environment = Thing(_is_mutating_tool=lambda name: name.startswith("set_"))
    return Thing(
        name="airline",
        task=lambda id: Thing(evaluation_criteria=criteria),
        fresh=Thing(environment=environment),
    )


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        (("get_user", "set_seat"), "writes"),
        (("get_user",), "reads"),
        ((), "reads"),
        (("set_seat", TRANSFER), "transfers"),
    ],
)
def test_a_task_is_sorted_by_what_its_gold_does(calls: tuple[str, ...], kind: str) -> None:
    assert kind_of(domain_with(*calls), "1") == kind


def test_a_task_that_a_model_would_judge_is_of_a_kind_of_its_own() -> None:
    assert kind_of(domain_with("set_seat", judged=True), "1") == "unjudged"
