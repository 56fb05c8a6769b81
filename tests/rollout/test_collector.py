from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from models.architectures import make_model
from recollect.envs.base import Opening, user
from recollect.errors import TooManyFailures
from recollect.models.attention import ATTENTION
from recollect.rollout.collector import Collected, check_failures
from recollect.rollout.episode import Limits
from recollect.rollout.round import Failure
from recollect.rollout.sampler import _Batch
from recollect.trajectory import Trajectory
from recollect.types import Origin, Sampling, SegmentKind, StopReason

from .worlds import (
    LIMITS,
    RUN,
    Broken,
    Echo,
    Faulty,
    collect,
    make_chat,
    make_collector,
    make_task,
    requests,
)

SOME = requests(range(6), rows=3)


def _same_but_for_time(first: Trajectory, second: Trajectory) -> bool:
    return replace(first, started=0.0, finished=0.0) == replace(second, started=0.0, finished=0.0)


# -- the record --------------------------------------------------------------------------------


def test_a_trajectory_is_the_whole_conversation_token_by_token() -> None:
    """Play every recorded text again: the environment's answers are the recorded tokens."""
    chat, environment = make_chat(), Echo()
    collected = collect(environment, SOME)
    assert len(collected.trajectories) == len(SOME)
    kinds = set()
    for request, t in zip(SOME, collected.trajectories, strict=True):
        episode = environment.start(request.task, request.environment_seed())
        pieces = chat.opening(episode.opening)
        segments = list(t.segments)
        while True:
            for piece in pieces[:-1]:
                segment = segments.pop(0)
                assert (segment.kind, segment.text) == (piece.kind, piece.text)
                assert segment.name == piece.name
                assert t.tokens[segment.start : segment.end].tolist() == list(piece.ids)
                assert not t.sampled[segment.start : segment.end].any()
                kinds.add(segment.kind)
            turn, header = segments.pop(0), len(pieces[-1].ids)
            assert turn.kind is SegmentKind.ASSISTANT
            ids = t.tokens[turn.start : turn.end].tolist()
            assert ids[:header] == list(pieces[-1].ids)
            assert not t.sampled[turn.start : turn.start + header].any()
            assert t.sampled[turn.start + header : turn.end].all()
            said = ids[header:]
            if not segments and t.stop is StopReason.TOKEN_LIMIT and said[-1] not in chat.stop_ids:
                assert turn.text == chat.decode(said)
                break
            assert said[-1] in chat.stop_ids
            assert not set(said[:-1]) & set(chat.stop_ids)
            assert turn.text == chat.decode(said[:-1])
            answer = episode.respond(turn.text)
            if answer.stop is not None or not segments:
                break
            pieces = chat.reply(answer.messages)
        assert not segments
        assert t.reward.value == episode.score().reward
        assert t.success == episode.score().success
        assert t.reward.parts == episode.score().parts
    assert kinds == {SegmentKind.SYSTEM, SegmentKind.USER, SegmentKind.TOOL}


def test_a_trajectory_says_where_it_comes_from() -> None:
    ticks = itertools.count(100)
    collector = make_collector(clock=lambda: float(next(ticks)))
    sampling = Sampling(0.9, 0.95, 40, 12)
    collected = collector.collect(SOME, sampling)
    collector.close()
    for request, t in zip(SOME, collected.trajectories, strict=True):
        assert (t.id, t.task, t.group) == (request.id, request.task.key, request.group)
        assert (t.run, t.step, t.policy_version) == (RUN, 1, 4)
        assert t.origin is Origin.FRESH
        assert t.sampling == sampling
        assert t.tokenizer == make_chat().fingerprint
        assert t.environment_version == t.reward_version == "3"
        assert 100 <= t.started < t.finished
        assert not t.notes
    assert collected.turns == sum(
        segment.kind is SegmentKind.ASSISTANT and t.sampled[segment.start : segment.end].any()
        for t in collected.trajectories
        for segment in t.segments
    )


def test_tool_calls_are_recorded_with_the_turn() -> None:
    model = make_model("llama").requires_grad_(False)
    chat = make_chat()
    call = '<tool_call>{"name":"seat","arguments":{"id":"B4K7"}}</tool_call>'
    script = [*chat.plain(call), chat._stop]

    # A model that can only say one thing: logits are huge at the next token of the script.
    def say(module: object, inputs: object, output: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(output, -50.0)
        forced[:, -1, script[say.place % len(script)]] = 50.0  # type: ignore[attr-defined]
        say.place += 1  # type: ignore[attr-defined]
        return forced

    say.place = 0  # type: ignore[attr-defined]
    model.lm_head.register_forward_hook(say)
    one = requests([0])
    limits = Limits(400, 60, 1)
    t = collect(Echo(), one, model=model, limits=limits, stops=()).trajectories[0]
    (turn,) = [s for s in t.segments if s.kind is SegmentKind.ASSISTANT]
    assert turn.text == call
    assert [(c.name, c.arguments) for c in turn.calls] == [("seat", '{"id":"B4K7"}')]


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [40, 60, 61, 62, 63, 64, 65, 90, 150])
def test_no_trajectory_is_longer_than_allowed(tokens: int) -> None:
    collected = collect(Echo(), SOME, limits=replace(LIMITS, tokens=tokens))
    assert len(collected.trajectories) + len(collected.failures) == len(SOME)
    for t in collected.trajectories:
        assert t.tokens.size <= tokens
        assert t.stop is StopReason.TOKEN_LIMIT or t.tokens.size < tokens
        assert t.sampled_count >= 1
    for failure in collected.failures:
        assert failure.where == "start"
        assert f"{tokens} are the limit" in failure.reason


def test_a_turn_that_is_cut_is_a_token_limit_and_the_environment_does_not_hear_it() -> None:
    environment = Echo()
    collected = collect(environment, SOME, limits=replace(LIMITS, turn_tokens=2))
    cut = [t for t in collected.trajectories if t.stop is StopReason.TOKEN_LIMIT]
    assert cut
    for t in cut:
        last = t.segments[-1]
        assert t.sampled[last.start : last.end].sum() == 2
    heard = sum(len(episode.heard) for episode in environment.episodes)
    assert heard == collected.turns - len(cut)


def test_the_sampling_can_shorten_turns_further() -> None:
    collected = collect(Echo(), SOME, Sampling(max_tokens=3))
    for t in collected.trajectories:
        for s in t.segments:
            assert t.sampled[s.start : s.end].sum() <= 3


def test_a_turn_limit_is_a_turn_limit() -> None:
    environment = Echo()
    collected = collect(environment, SOME, limits=replace(LIMITS, turns=2, turn_tokens=60))
    stops = {t.stop for t in collected.trajectories}
    assert StopReason.TURN_LIMIT in stops
    assert max(len(episode.heard) for episode in environment.episodes) == 2


def test_the_environment_s_own_turn_limit_counts_as_well() -> None:
    environment = Echo(turns=1)
    collected = collect(environment, SOME, limits=replace(LIMITS, turn_tokens=60))
    assert {t.stop for t in collected.trajectories} <= {StopReason.DONE, StopReason.TURN_LIMIT}
    assert collected.turns == len(SOME)


@pytest.mark.parametrize("stop", list(StopReason))
def test_the_environment_says_why_it_stopped(stop: StopReason) -> None:
    from recollect.envs.base import Turn

    faulty = Faulty({"task-0": Broken("respond", lambda: Turn((user("x"),), stop))})
    collected = collect(faulty, requests([0]), limits=replace(LIMITS, turn_tokens=60))
    assert [t.stop for t in collected.trajectories] == [stop]


def test_silence_ends_an_episode() -> None:
    from recollect.envs.base import Turn

    faulty = Faulty({"task-0": Broken("respond", Turn)})
    collected = collect(faulty, requests([0]), limits=replace(LIMITS, turn_tokens=60))
    assert [t.stop for t in collected.trajectories] == [StopReason.DONE]


def test_time_is_measured_for_each_attempt_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every forward pass takes a second. Two rows at a time: those that wait for a place, though
    # their episodes are open already, must not pay for those before them.
    passes, forward = itertools.count(1), _Batch._forward
    seconds = [0]

    def slow(self: _Batch, *args: Any) -> Any:
        seconds[0] = next(passes)
        return forward(self, *args)

    monkeypatch.setattr(_Batch, "_forward", slow)
    many, wide = requests(range(12)), replace(LIMITS, turn_tokens=60)
    options = {"batch_rows": 2, "limits": wide, "timer": lambda: float(seconds[0])}
    whole = collect(Echo(), many, episode_seconds=1e9, **options)
    assert seconds[0] > 2 * 40, "the round is to be longer than an attempt may be"
    patient = collect(Echo(), many, episode_seconds=40.0, **options)
    assert [t.stop for t in patient.trajectories] == [t.stop for t in whole.trajectories]


def test_the_date_of_an_attempt_is_when_it_got_its_place() -> None:
    dates = itertools.count()
    rows = collect(Echo(), requests(range(3)), batch_rows=1, clock=lambda: float(next(dates)))
    times = [(t.started, t.finished) for t in rows.trajectories]
    assert times == [(0, 1), (2, 3), (4, 5)]


def test_an_attempt_that_takes_too_long_is_cut() -> None:
    timer = itertools.count()
    environment = Echo()
    collected = collect(
        environment,
        SOME,
        timer=lambda: float(next(timer)),
        episode_seconds=0.5,
        limits=replace(LIMITS, turn_tokens=60),
    )
    assert {t.stop for t in collected.trajectories} == {StopReason.TIME_LIMIT}
    assert all(not episode.heard for episode in environment.episodes)
    assert all(t.sampled_count for t in collected.trajectories)


def test_a_model_s_own_positions_are_a_limit() -> None:
    config = GPT2Config(vocab_size=320, n_embd=16, n_layer=1, n_head=2, n_positions=96)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION)
    limits = Limits(tokens=5000, turn_tokens=5000, turns=8)
    collected = collect(Echo(), requests(range(4)), model=model, limits=limits, stops=())
    assert len(collected.trajectories) == 4
    assert max(t.tokens.size for t in collected.trajectories) == 96


# -- what it does not depend on ----------------------------------------------------------------


def test_order_and_size_of_the_batch_do_not_matter() -> None:
    wanted = collect(Echo(), SOME).trajectories
    for batch_rows, order in ((1, SOME), (3, SOME[::-1]), (64, SOME[1::2] + SOME[::2])):
        found = collect(Echo(), order, batch_rows=batch_rows).trajectories
        assert [t.id for t in found] == [request.id for request in order]
        by_id = {t.id: t for t in found}
        for theirs in wanted:
            ours = by_id[theirs.id]
            assert ours.tokens.tolist() == theirs.tokens.tolist()
            assert ours.segments == theirs.segments
            assert (ours.stop, ours.reward) == (theirs.stop, theirs.reward)
            np.testing.assert_allclose(ours.logprobs, theirs.logprobs, atol=1e-5)
            np.testing.assert_allclose(ours.entropies, theirs.entropies, atol=1e-5)


def test_the_same_requests_give_the_same_bits_twice() -> None:
    collector = make_collector()
    first, second = (collector.collect(SOME, Sampling()).trajectories for _ in range(2))
    collector.close()
    assert all(map(_same_but_for_time, first, second))


def test_rows_of_a_group_differ_and_steps_differ() -> None:
    same_task = collect(Echo(), requests([2], rows=4)).trajectories
    assert len({t.tokens.tobytes() for t in same_task}) == 4
    later = collect(Echo(), requests([2], rows=4, step=2)).trajectories
    assert not {t.tokens.tobytes() for t in same_task} & {t.tokens.tobytes() for t in later}


def test_nothing_asked_nothing_given() -> None:
    assert collect(Echo(), []) == Collected((), (), 0)


def test_requests_with_the_same_id_are_refused() -> None:
    with pytest.raises(ValueError, match="same id"):
        collect(Echo(), [SOME[0], SOME[0]])


def test_progress_counts_up_to_the_end() -> None:
    told: list[tuple[int, ...]] = []
    faulty = Faulty({"task-1": Broken("respond", lambda: None)})
    collector = make_collector(faulty, limits=replace(LIMITS, turn_tokens=60))
    collector.collect(
        requests(range(5)), Sampling(), lambda done, failed: told.append((done, failed))
    )
    collector.close()
    assert [done + failed for done, failed in told] == [1, 2, 3, 4, 5]
    assert told[-1] == (4, 1)


def test_episodes_that_wait_for_a_place_are_closed_when_sampling_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: _Batch, *args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(_Batch, "_forward", broken)
    environment = Echo()
    with pytest.raises(MemoryError):
        collect(environment, requests(range(5)), batch_rows=2)
    assert [episode.closed for episode in environment.episodes] == [1] * 5


def test_every_episode_is_closed_once_it_is_scored() -> None:
    environment = Echo()
    collect(environment, SOME)
    assert [episode.closed for episode in environment.episodes] == [1] * len(SOME)


def test_episodes_begin_as_there_is_room() -> None:
    open_now: list[int] = []

    class Counting(Echo):
        def start(self, task: object, seed: int) -> object:  # type: ignore[override]
            open_now.append(1 + sum(not episode.closed for episode in self.episodes))
            return super().start(task, seed)  # type: ignore[arg-type]

    collect(Counting(), requests(range(40)), batch_rows=4)
    assert len(open_now) == 40
    assert max(open_now) <= 4 + 16  # those running, and one handful begun in advance


# -- too many failures -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failed", "share", "stops"),
    [(0, 0.0, False), (1, 0.0, True), (1, 0.25, False), (2, 0.25, True), (4, 1.0, False)],
)
def test_a_share_of_failures_stops_the_run(failed: int, share: float, stops: bool) -> None:
    four = requests(range(4))
    good = collect(Echo(), four).trajectories[failed:]
    bad = tuple(Failure(request, "score", "ValueError: no") for request in four[:failed])
    collected = Collected(good, bad, 0)
    if not stops:
        check_failures(collected, share)
        return
    with pytest.raises(TooManyFailures, match=f"{failed} of 4 .* task task-0, score: ValueError"):
        check_failures(collected, share)


def test_nothing_collected_is_no_failure() -> None:
    check_failures(Collected((), (), 0), 0.0)


def test_an_opening_that_fills_the_limit_is_a_failure_and_is_closed() -> None:
    faulty = Faulty({"task-0": Broken("opening", lambda: Opening((user("long " * 30),)))})
    collected = collect(faulty, requests([0, 1]), limits=replace(LIMITS, tokens=120))
    assert [t.task for t in collected.trajectories] == [make_task(1).key]
    (failure,) = collected.failures
    assert failure.where == "start"
    assert "120 are the limit" in failure.reason
    assert [episode.closed for episode in faulty.started] == [1]
