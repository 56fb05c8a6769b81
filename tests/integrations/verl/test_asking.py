"""Orders and what comes of them survive the way there and back."""

from __future__ import annotations

import pytest

from recollect.errors import InvalidRecord
from recollect.integrations.verl.asking import Order, Played
from recollect.notes.inject import Guidance, PromptNote
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.types import NoteId, RunId, Sampling, Task
from train.rows import make_row

TASK = Task("letters", "7", "2", "Wörter, <|end|>", "d", "train", 3)
NOTES = Guidance((PromptNote(NoteId("n" * 32), 'Say "a"\n'),), "system")
REQUEST = Request.of(TASK, RunId("run"), 4, 2, policy_version=9, seed=3, guidance=NOTES)


def test_an_order_comes_back_as_it_was() -> None:
    order = Order(REQUEST, Sampling(0.7, max_tokens=12), 9)
    text = order.text()
    assert "\n" not in text
    assert Order.read(text) == order
    assert Order.read(text).request.id == REQUEST.id


def test_a_trajectory_comes_back_bit_for_bit() -> None:
    row = make_row([1, 2, 3], [False, True, True], name=REQUEST.id, logprobs=[-0.1, -0.2])
    played = Played.of(row, 2)
    assert played.turns == 2
    assert played.result(REQUEST) == row


def test_a_trajectory_of_another_attempt_is_noticed() -> None:
    row = make_row([1, 2], [False, True], name="another")
    with pytest.raises(InvalidRecord, match="came back for"):
        Played.of(row, 1).result(REQUEST)


def test_a_failure_says_where_and_why() -> None:
    played = Played.of(Failure(REQUEST, "score", "ValueError: no"), 0)
    assert not played.frame
    assert played.result(REQUEST) == Failure(REQUEST, "score", "ValueError: no")
    odd = Played(where="elsewhere").result(REQUEST)
    assert isinstance(odd, Failure)
    assert odd.where == "record"
    assert odd.reason
