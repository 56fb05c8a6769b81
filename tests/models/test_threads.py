"""Threads of a small model, and who may choose them."""

from collections.abc import Iterator

import pytest
import torch

from recollect.config.loading import load_config
from recollect.models import threads
from recollect.train.parts import load_as_is, policy_from

MANY = 3


@pytest.fixture(autouse=True)
def torch_has_many() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(MANY)
    yield
    torch.set_num_threads(before)


def threads_of(*flags: str) -> int:
    """Load the policy of a run, as training does."""
    policy_from(load_config("demo", list(flags)).config, None)
    return torch.get_num_threads()


def test_a_small_model_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads_of() == 1


def test_a_larger_one_gets_what_torch_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "SMALL", 1000)
    assert threads_of() == MANY


def test_what_the_environment_says_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(MANY))
    assert threads_of() == MANY
    assert threads_of("model.threads=2") == 2, "a run's own setting comes first"


def test_a_model_that_does_not_train_here_gets_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examinations of a continual run, between its stages."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    config = load_config("demo", []).config
    load_as_is(config, config.model.name)
    assert torch.get_num_threads() == 1
