from __future__ import annotations

import pytest

from recollect.envs.base import Opening, Score, system, tool, user
from recollect.errors import InvalidRecord
from recollect.rollout.episode import Attempt, Limits
from recollect.types import Sampling, SegmentKind, StopReason

from .worlds import EchoEpisode, make_chat, make_task, requests

CHAT = make_chat(())
STOP = CHAT._stop
OPENING = Opening((system("Be brief."), user("Cancel B4K7.")))
PROMPT = sum(len(piece.ids) for piece in CHAT.opening(OPENING))


def _attempt(tokens: int = 400, turn_tokens: int = 30, turns: int = 5) -> Attempt:
    episode = EchoEpisode(make_task(0), 0)
    return Attempt(requests([0])[0], episode, CHAT, Limits(tokens, turn_tokens, turns), OPENING)


def _say(attempt: Attempt, text: str, stop: int | None = STOP) -> str | None:
    """Let the attempt's row have sampled a text."""
    for token in (*CHAT.plain(text), *(() if stop is None else (stop,))):
        attempt.row.pending.clear()  # what was there has been fed
        attempt.row.take(token, -1.0, 0.5)
    return attempt.end_turn()


def test_it_begins_with_the_opening_waiting_to_be_read() -> None:
    attempt = _attempt()
    ids = [token for piece in CHAT.opening(OPENING) for token in piece.ids]
    assert attempt.row.pending == ids
    assert attempt.row.turn_limit == 30
    assert not attempt.row.done


def test_a_turn_is_text_without_its_stop() -> None:
    attempt = _attempt()
    assert _say(attempt, "Done! <|im_end|>") == "Done! <|im_end|>"
    assert attempt.turns == 1
    assert attempt.row.turn == []
    assert attempt.row.pending[-1] == STOP  # it is still to be fed


def test_an_empty_turn_is_a_turn() -> None:
    assert _say(_attempt(), "") == ""


def test_a_turn_without_a_stop_ends_the_attempt() -> None:
    attempt = _attempt()
    assert _say(attempt, "Let me", stop=None) is None
    assert attempt.stop is StopReason.TOKEN_LIMIT
    assert attempt.row.done


def test_it_goes_on_with_what_it_hears() -> None:
    attempt = _attempt()
    _say(attempt, "one moment")
    attempt.go_on([tool("ok", "seat"), user("And?")])
    pieces = CHAT.reply([tool("ok", "seat"), user("And?")])
    assert attempt.row.pending == [STOP, *(t for piece in pieces for t in piece.ids)]
    assert not attempt.row.done


@pytest.mark.parametrize(("spare", "goes_on"), [(-1, False), (0, False), (1, True), (2, True)])
def test_it_stops_where_an_answer_would_leave_no_room(spare: int, goes_on: bool) -> None:
    said = len(CHAT.plain("yes")) + 1
    heard = sum(len(piece.ids) for piece in CHAT.reply([user("And?")]))
    attempt = _attempt(tokens=PROMPT + said + heard + spare)
    _say(attempt, "yes")
    attempt.go_on([user("And?")])
    assert attempt.row.done is not goes_on
    if goes_on:
        assert attempt.row.turn_limit == spare
    else:
        assert attempt.stop is StopReason.TOKEN_LIMIT


def test_it_stops_after_its_turns_whatever_it_hears() -> None:
    attempt = _attempt(turns=2)
    for _ in range(2):
        assert not attempt.row.done
        _say(attempt, "yes")
        attempt.go_on([user("And?")])
    assert attempt.stop is StopReason.TURN_LIMIT


@pytest.mark.parametrize("tokens", [1, PROMPT - 1, PROMPT])
def test_a_prompt_that_leaves_no_room_is_refused(tokens: int) -> None:
    with pytest.raises(InvalidRecord, match=f"has {PROMPT} tokens, {tokens} are the limit"):
        _attempt(tokens=tokens)


def test_one_token_of_room_is_enough() -> None:
    assert _attempt(tokens=PROMPT + 1).row.turn_limit == 1


def test_the_record_has_every_token_once() -> None:
    attempt = _attempt()
    _say(attempt, "one moment")
    attempt.go_on([tool("ok", "seat")])
    _say(attempt, "Done!")
    attempt.finish(StopReason.DONE)
    t = attempt.trajectory(Score(1.0, True), Sampling(), ("f", "e", "r"), (1.0, 2.0))
    assert [s.kind for s in t.segments] == [
        SegmentKind.SYSTEM,
        SegmentKind.USER,
        SegmentKind.ASSISTANT,
        SegmentKind.TOOL,
        SegmentKind.ASSISTANT,
    ]
    turns = (*CHAT.plain("one moment"), STOP, *CHAT.plain("Done!"), STOP)
    assert t.tokens[t.sampled].tolist() == list(turns)
    assert CHAT.decode(t.tokens) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nCancel B4K7.<|im_end|>\n"
        "<|im_start|>assistant\none moment<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nok\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nDone!<|im_end|>"
    )
    assert (t.tokenizer, t.environment_version, t.reward_version) == ("f", "e", "r")
    assert (t.started, t.finished) == (1.0, 2.0)


def test_chance_depends_on_step_task_and_row_and_on_nothing_else() -> None:
    def drawn(**changes: int) -> float:
        (request,) = requests([changes.get("task", 0)], step=changes.get("step", 1))
        if "row" in changes:
            request = requests([0], rows=changes["row"] + 1)[-1]
        limits = Limits(changes.get("tokens", 400), 30, 5)
        attempt = Attempt(request, EchoEpisode(make_task(0), 0), CHAT, limits, OPENING)
        return float(attempt.row.uniforms[0])

    assert drawn() == drawn() == drawn(tokens=300)
    assert len({drawn(), drawn(task=1), drawn(step=2), drawn(row=1)}) == 4


def test_the_environment_has_a_seed_of_its_own_for_every_attempt() -> None:
    seeds = [r.environment_seed() for step in (1, 2) for r in requests([0, 1], 2, step)]
    assert len(set(seeds)) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)
