"""Rows over an engine that is asked for turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.architectures import shared_model
from recollect.errors import GeneratorLost
from recollect.rollout.collector import Collected, Collector
from recollect.rollout.sampler import Row
from recollect.rollout.turns import Spoken, TurnSampler
from recollect.types import Sampling, StopReason

from .scripts import STOPS, Script, recompute, scripts
from .speaking import SmallSpeaker
from .worlds import LIMITS, Echo, collect, make_chat, requests


def play(speaker: SmallSpeaker, chosen: Sequence[Script], batch_rows: int = 4) -> None:
    owners = {id(script.row): script for script in chosen}

    def end_turns(rows: Sequence[Row]) -> None:
        for row in rows:
            owners[id(row)].end_turn()

    sampler = TurnSampler(speaker, STOPS, batch_rows)
    sampler.run((script.row for script in chosen), Sampling(), end_turns)


def small(**options: object) -> SmallSpeaker:
    return SmallSpeaker(shared_model("llama-gqa"), STOPS, **options)  # type: ignore[arg-type]


def test_every_turn_follows_all_that_was_said_before() -> None:
    chosen = scripts()
    speaker = small()
    play(speaker, chosen)
    asked = [list(turn.prompt) for turn in speaker.asked]
    for script in chosen:
        assert script.row.done
        assert len(script.turns) == len(script.replies) + 1
        start = len(script.prompt)
        for turn, reply in zip(script.turns, [*script.replies, []], strict=True):
            assert script.ids[:start] in asked
            assert script.ids[start : start + len(turn)] == turn
            start += len(turn) + len(reply)
        logprobs, _ = recompute(speaker.model, script, 1.0)
        np.testing.assert_allclose(script.row.logprobs, logprobs.numpy(), atol=1e-5, rtol=0)
    assert speaker.most == 4
    assert (speaker.renewed, speaker.dropped) == (1, 0)


def test_entropies_are_missing_and_not_zero() -> None:
    collected = _collected()
    assert collected.trajectories
    for row in collected.trajectories:
        assert row.entropies is None
        assert row.mean_entropy is None
        assert row.logprobs is not None
        assert row.logprobs.size == row.sampled.sum()


def _collected(hears: int = 3, batch_rows: int = 8) -> Collected:
    chat = make_chat()
    speaker = SmallSpeaker(shared_model("llama-gqa"), chat.stop_ids, hears)
    sampler = TurnSampler(speaker, chat.stop_ids, batch_rows)
    collector = Collector(Echo(), chat, sampler, LIMITS, call_seconds=20.0)
    try:
        return collector.collect(requests(range(6), rows=3), Sampling())
    finally:
        collector.close()
        assert speaker.closed == 1


def test_who_finishes_first_changes_nothing() -> None:
    first = _collected().trajectories
    again = _collected(hears=1, batch_rows=3).trajectories
    assert len(first) == 18
    assert len({t.tokens.tobytes() for t in first}) > 12, "attempts have a chance of their own"
    for one, other in zip(first, again, strict=True):
        times = {"started": 0.0, "finished": 0.0}
        assert one.tokens.tolist() == other.tokens.tolist()
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5, rtol=0)
        assert replace(one, **times, logprobs=other.logprobs) == replace(other, **times)


def test_limits_are_those_of_our_own_sampler() -> None:
    """Stop reasons, lengths and turns obey the same rules as with the model itself."""
    theirs = collect(Echo(), requests(range(6), rows=3))
    ours = _collected()
    assert {t.stop for t in ours.trajectories} <= {t.stop for t in theirs.trajectories} | {
        StopReason.DONE,
        StopReason.TOKEN_LIMIT,
        StopReason.TURN_LIMIT,
    }
    assert all(t.tokens.size <= LIMITS.tokens for t in ours.trajectories)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda s: Spoken([], []), "no token"),
        (lambda s: replace(s, logprobs=s.logprobs[:-1]), "log-probs"),
        (lambda s: Spoken([STOPS[0], *s.tokens], [-1.0, *s.logprobs]), "after a stop"),
        (lambda s: Spoken([1] * 99, [-1.0] * 99), "beyond the limit"),
        (lambda s: Spoken([1], [-1.0]), "for no reason"),
        (lambda s: replace(s, logprobs=[float("nan")] * len(s.tokens)), "no number"),
        (lambda s: replace(s, logprobs=[float("-inf")] * len(s.tokens)), "no number"),
    ],
)
def test_what_is_no_turn_is_refused(spoil: object, why: str) -> None:
    speaker = small(spoil=spoil)
    with pytest.raises(GeneratorLost, match=why):
        play(speaker, scripts())
    assert speaker.dropped == 1
    assert not speaker.under_way


def test_rounding_above_zero_is_no_probability() -> None:
    speaker = small(spoil=lambda s: replace(s, logprobs=[1e-7] * len(s.tokens)))
    chosen = scripts()[:2]
    play(speaker, chosen)
    assert {value for script in chosen for value in script.row.logprobs} == {0.0}


def test_weights_are_renewed_before_every_round() -> None:
    speaker = small()
    for done in (1, 2):
        play(speaker, scripts()[:3])
        assert speaker.renewed == done


def test_nothing_to_do_is_no_error() -> None:
    speaker = small()
    play(speaker, [])
    assert (speaker.asked, speaker.dropped) == ([], 0)
