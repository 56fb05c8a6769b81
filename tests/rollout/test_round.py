"""Environments that raise, hang and talk nonsense: one attempt is lost, with a reason."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models.architectures import make_model
from recollect.envs.base import Opening, Parameter, Score, ToolSpec, Turn, system, tool, user
from recollect.errors import EnvironmentHung
from recollect.rollout.collector import Collected
from recollect.rollout.round import Failure
from recollect.types import Sampling, StopReason

from .worlds import LIMITS, Broken, Echo, Faulty, Hang, collect, make_collector, requests

ALL = requests(range(5))
# Turns long enough that every attempt gets to hear an answer.
WIDE = replace(LIMITS, turn_tokens=60)


def _raise(error: BaseException) -> None:
    raise error


def _raiser(error: BaseException) -> Callable[[], None]:
    return lambda: _raise(error)


def _score_with(reward: object, success: object = True, parts: object = None) -> Score:
    """Make a score past its own checks, as a careless subclass could."""
    score = object.__new__(Score)
    for name, value in (("reward", reward), ("success", success), ("parts", parts or {})):
        object.__setattr__(score, name, value)
    return score


def _play(faults: list[tuple[str, Callable[[], Any]]], **options: Any) -> tuple[Faulty, Collected]:
    """Break the first tasks, one each, and let three more be as they are."""
    broken = {f"task-{n}": Broken(*fault) for n, fault in enumerate(faults)}
    faulty = Faulty(broken)
    wanted = requests(range(len(faults) + 3))
    return faulty, collect(faulty, wanted, limits=WIDE, batch_rows=64, **options)


@pytest.fixture
def hang() -> Iterator[Hang]:
    waiting = Hang()
    yield waiting
    waiting.release.set()


def _assert_only_these_lost(faulty: Faulty, collected: Collected) -> list[Failure]:
    """Check that the broken tasks failed, and the others are as they would have been alone."""
    count = len(faulty.faults)
    wanted = requests(range(count + 3))
    assert [f.request.id for f in collected.failures] == [r.id for r in wanted[:count]]
    assert [t.id for t in collected.trajectories] == [r.id for r in wanted[count:]]
    alone = collect(Echo(), wanted[count:], limits=WIDE, batch_rows=64).trajectories
    for ours, theirs in zip(collected.trajectories, alone, strict=True):
        assert ours.tokens.tolist() == theirs.tokens.tolist()
        assert (ours.reward, ours.stop, ours.segments) == (
            theirs.reward,
            theirs.stop,
            theirs.segments,
        )
    for failure in collected.failures:
        assert failure.reason.isprintable()
        assert failure.reason
    assert all(episode.closed for episode in faulty.started)
    wrapped = [id(episode.inner) for episode in faulty.started]
    others = [episode for episode in faulty.inner.episodes if id(episode) not in wrapped]
    assert [episode.closed for episode in others] == [1] * 3
    return list(collected.failures)


# -- raising -----------------------------------------------------------------------------------

ERRORS = (
    ValueError("bad seat"),
    ValueError(),
    ValueError("two\nlines and a \ud800"),
    SystemExit(1),
    RecursionError(),
    MemoryError(),
    AssertionError(),
    StopIteration(),
)


@pytest.mark.parametrize("where", ["start", "opening", "respond", "score", "close"])
def test_an_environment_that_raises_loses_its_attempts_only(where: str) -> None:
    faulty, collected = _play([(where, _raiser(error)) for error in ERRORS])
    failures = _assert_only_these_lost(faulty, collected)
    for failure, error in zip(failures, ERRORS, strict=True):
        assert failure.where == ("start" if where == "opening" else where)
        assert failure.reason.startswith(type(error).__name__)


def test_a_keyboard_interrupt_is_not_a_failure() -> None:
    faulty = Faulty({"task-1": Broken("respond", _raiser(KeyboardInterrupt()))})
    with pytest.raises(KeyboardInterrupt):
        collect(faulty, ALL, limits=WIDE)
    assert all(episode.closed for episode in faulty.inner.episodes)


# -- hanging -----------------------------------------------------------------------------------


def test_an_environment_that_hangs_loses_its_attempts_only(hang: Hang) -> None:
    places = ["start", "opening", "respond", "score", "close"]
    faulty, collected = _play([(where, hang) for where in places], call_seconds=0.5)
    for failure, where in zip(_assert_only_these_lost(faulty, collected), places, strict=True):
        assert failure.where == ("start" if where == "opening" else where)
        assert failure.reason == "no answer within 0.5 s"


def test_an_environment_in_which_nothing_moves_ends_the_run(hang: Hang) -> None:
    faulty = Faulty({f"task-{n}": Broken("start", hang) for n in range(9)})
    collector = make_collector(faulty, limits=WIDE, call_seconds=0.05)
    collector._calls._max_stuck = 4
    began = time.monotonic()
    with pytest.raises(EnvironmentHung, match=r"5 environment calls gave no answer within 0\.05 s"):
        collector.collect(requests(range(9)), Sampling())
    assert time.monotonic() - began < 10
    collector.close()


# -- nonsense ----------------------------------------------------------------------------------

_DEEP = ToolSpec("x", "", ([],))  # type: ignore[arg-type]  # not hashable


NONSENSE: list[tuple[str, Any, str]] = [
    ("start", None, "AttributeError: 'NoneType' object has no attribute 'opening'"),
    ("start", 7, "AttributeError: 'int' object has no attribute 'opening'"),
    ("start", SimpleNamespace(opening=None), "opening is NoneType instead of an Opening"),
    ("opening", "hello", "opening is str instead of an Opening"),
    ("opening", Opening(()), "messages: are missing"),
    ("opening", Opening(None), "the messages are not a tuple of Message"),
    ("opening", Opening(("hello",)), "the messages are not a tuple of Message"),
    ("opening", Opening((user("hi"),), (None,)), "AttributeError"),
    ("opening", Opening((user("hi"),), 7), "TypeError"),
    ("opening", Opening((user("hi"),), (_DEEP,)), "TypeError"),
    ("opening", Opening((user("hi"),), (ToolSpec("<|im_end|>"),)), "special token"),
    ("opening", Opening((user("x" * 201),)), "201 characters, its limits promise 200"),
    ("respond", None, "respond returned NoneType instead of a Turn"),
    ("respond", "hello", "respond returned str instead of a Turn"),
    ("respond", Turn("hello"), "the messages are not a tuple of Message"),
    ("respond", Turn((user("a"), "b")), "the messages are not a tuple of Message"),
    ("respond", Turn((), "done"), "respond stopped with str, no StopReason"),
    ("respond", Turn((user("x" * 10**7),)), "10,000,000 characters, its limits promise 200"),
    ("respond", Turn((tool("ok", "<|im_end|>"),)), "special token"),
    ("score", None, "score returned NoneType instead of a Score"),
    ("score", 1.0, "score returned float instead of a Score"),
    ("score", _score_with(float("nan")), "nan is not finite"),
    ("score", _score_with(float("inf")), "inf is not finite"),
    ("score", _score_with(None), "expected a number, got NoneType"),
    ("score", _score_with("1"), "expected a number, got str"),
    ("score", _score_with(torch.tensor(1.0)), "expected a number, got Tensor"),
    ("score", _score_with(10**400), "does not fit"),
    ("score", _score_with(1.0, "yes"), "expected true or false"),
    ("score", _score_with(1.0, True, {"x": float("nan")}), "nan is not finite"),
    ("score", _score_with(1.0, True, [1]), "must map names to numbers"),
]


def test_nonsense_loses_its_attempts_only() -> None:
    faults = [(where, lambda answer=answer: answer) for where, answer, _ in NONSENSE]
    faulty, collected = _play(faults)
    for failure, (_, _, reason) in zip(
        _assert_only_these_lost(faulty, collected), NONSENSE, strict=True
    ):
        assert reason in failure.reason


def test_rewards_that_are_no_numbers_never_get_far() -> None:
    rewards: list[Any] = [float("nan"), float("inf"), -float("inf"), None, "1"]
    faulty, collected = _play([("score", lambda r=r: Score(r, True)) for r in rewards])
    for failure in _assert_only_these_lost(faulty, collected):
        assert failure.where == "score"
        assert failure.reason.startswith("InvalidRecord")


def test_methods_that_are_missing_or_explode_when_looked_up() -> None:
    class Bare:
        opening = Opening((user("hi"),))

    class Explosive:
        opening = Opening((user("hi"),))

        @property
        def respond(self) -> None:
            raise ValueError("do not look")

    faulty = Faulty({"task-1": Broken("start", Bare), "task-2": Broken("start", Explosive)})
    collected = collect(faulty, ALL, limits=WIDE)
    reasons = {f.request.task.id: (f.where, f.reason) for f in collected.failures}
    assert reasons["task-1"][0] == "respond"
    assert "'Bare' object has no attribute 'respond'" in reasons["task-1"][1]
    assert reasons["task-2"] == ("respond", "ValueError: do not look")
    assert len(collected.trajectories) == 3


def test_a_template_that_has_no_place_for_a_message_loses_the_attempt() -> None:
    from models.tokenizers_for_tests import shared_tokenizer
    from recollect.models.chat import Chat
    from recollect.rollout.collector import Collector
    from recollect.rollout.sampler import Sampler

    chat = Chat(shared_tokenizer("gemma"), range(20, 300, 10))
    sampler = Sampler(make_model("llama"), chat.stop_ids)
    collector = Collector(Echo(), chat, sampler, WIDE)
    collected = collector.collect(ALL, Sampling())
    collector.close()
    assert not collected.trajectories
    assert {(f.where, "System role not supported" in f.reason) for f in collected.failures} == {
        ("start", True)
    }


def test_weights_that_are_no_numbers_never_make_a_trajectory() -> None:
    model = make_model("llama").requires_grad_(False)
    model.lm_head.weight.fill_(float("nan"))
    environment = Echo()
    collected = collect(environment, ALL, model=model)
    assert not collected.trajectories
    assert {f.where for f in collected.failures} == {"record"}
    assert "logprobs" in collected.failures[0].reason
    assert all(episode.closed == 1 for episode in environment.episodes)


def test_parameters_of_tools_are_no_way_in() -> None:
    spec = ToolSpec("x", "", (Parameter("y", description="<|im_start|>system"),))
    opening = Opening((system("a"), user("b")), (spec,))
    _, collected = _play([("opening", lambda: opening)])
    assert "special token" in collected.failures[0].reason


# -- many at once ------------------------------------------------------------------------------


def test_with_thirty_percent_of_faults_the_rest_is_as_it_would_have_been(hang: Hang) -> None:
    wanted = requests(range(40))
    nonsense: list[Callable[[], Any]] = [
        _raiser(ValueError("no")),
        lambda: None,
        hang,
        _raiser(SystemExit()),
    ]
    places = ["start", "opening", "respond", "score", "close"]
    broken = [n for n in range(40) if n % 10 in (1, 4, 8)]
    faults = {}
    for count, task in enumerate(broken):
        where, action = places[count % 5], nonsense[count % 4]
        if where == "close" and action is nonsense[1]:
            action = nonsense[0]  # nobody minds what close returns
        faults[f"task-{task}"] = Broken(where, action)
    whole = {t.id: t for t in collect(Echo(), wanted, limits=WIDE, batch_rows=16).trajectories}
    faulty = Faulty(faults)
    collected = collect(faulty, wanted, limits=WIDE, batch_rows=16, call_seconds=0.6)
    assert {f.request.task.id for f in collected.failures} == set(faults)
    assert len(collected.trajectories) == 40 - len(broken)
    for t in collected.trajectories:
        assert t.tokens.tolist() == whole[t.id].tokens.tolist()
        assert t.reward == whole[t.id].reward
    assert hang.calls == 3
    assert all(episode.closed for episode in faulty.started)


def test_no_threads_are_left_when_nothing_hangs() -> None:
    before = threading.active_count()
    _play([("respond", _raiser(ValueError("no")))])
    assert threading.active_count() <= before


def test_episodes_are_closed_when_somebody_interrupts_their_beginning() -> None:
    faulty = Faulty({"task-2": Broken("opening", _raiser(KeyboardInterrupt()))})
    collector = make_collector(faulty, limits=WIDE, batch_rows=4)
    with pytest.raises(KeyboardInterrupt):
        collector.collect(ALL, Sampling())
    collector.close()
    assert len(faulty.inner.episodes) == len(ALL)
    assert [episode.closed for episode in faulty.inner.episodes] == [1] * len(ALL)


def test_episodes_are_closed_when_somebody_interrupts() -> None:
    environment = Echo()
    collector = make_collector(environment, limits=WIDE, batch_rows=4)

    def interrupt(done: int, failed: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collector.collect(requests(range(20)), Sampling(), interrupt)
    assert environment.episodes
    assert all(episode.closed for episode in environment.episodes)
    # The collector can go on afterwards, and nothing of the past is mixed in.
    again = collector.collect(ALL, Sampling())
    collector.close()
    fresh = collect(Echo(), ALL, limits=WIDE, batch_rows=4)
    assert [t.tokens.tolist() for t in again.trajectories] == [
        t.tokens.tolist() for t in fresh.trajectories
    ]


def test_interrupting_does_not_wait_for_an_environment_that_hangs(hang: Hang) -> None:
    faults = {f"task-{n}": Broken("close", hang) for n in range(20)}
    collector = make_collector(Faulty(faults), limits=WIDE, batch_rows=20, call_seconds=1.0)

    def interrupt(done: int, failed: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        collector.collect(requests(range(20)), Sampling(), interrupt)
    assert time.monotonic() - began < 10  # one close, and one more with little patience
    collector.close()


def test_a_stop_reason_given_by_the_environment_outlives_its_messages() -> None:
    faulty = Faulty({"task-1": Broken("respond", lambda: Turn((None,), StopReason.DONE))})  # type: ignore[arg-type]
    collected = collect(faulty, ALL, limits=WIDE)
    assert not collected.failures  # the messages of a last turn are not shown to anybody
