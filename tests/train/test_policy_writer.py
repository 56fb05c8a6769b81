"""The policy as a writer: always the same answer, within its room, and never an endless one."""

from __future__ import annotations

import pytest

from notes.distill.test_writing import BAD, GOOD, TASK
from recollect.models.loading import Policy
from recollect.notes.distill.study import Study
from recollect.notes.distill.writer import Question, WritingFailed, ask
from recollect.rollout.sampler import Sampler
from recollect.train.policy_writer import PolicyWriter

STUDY = Study(TASK, GOOD, BAD, 0.5)


def writer_of(policy: Policy, most: int = 4000, seed: int = 1) -> PolicyWriter:
    sampler = Sampler(policy.model, policy.chat.stop_ids, 1)
    return PolicyWriter(policy.chat, sampler, 12, most, 1.0, seed)


def answers(writer: PolicyWriter, count: int = 12) -> list[str]:
    """What it writes to questions that differ by their keys only; failures by their reasons."""
    found = []
    for number in range(count):
        question = Question(f"key-{number}", STUDY, "Say something.")
        try:
            found.append(writer.write(question).content)
        except WritingFailed as error:
            found.append(f"failed: {error.reason}, {error.retry}")
    return found


def test_it_writes_the_same_to_the_same_question(policy: Policy) -> None:
    first = answers(writer_of(policy))
    assert first == answers(writer_of(policy))
    assert len(set(first)) > 1, "chance belongs to the question"
    assert first != answers(writer_of(policy, seed=2))
    written = [text for text in first if not text.startswith("failed")]
    assert written
    longest = len("<|assistant|>")  # a token may be the name of one; in a note it is text
    assert all(len(text) <= 12 * longest for text in written)
    assert not any(text.endswith("True") for text in first), "asking again would not help"


def test_a_question_that_does_not_fit_is_not_asked(policy: Policy) -> None:
    writer = writer_of(policy, most=100)
    with pytest.raises(WritingFailed, match="100 are the limit"):
        writer.write(ask(writer, STUDY))
