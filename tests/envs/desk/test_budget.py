"""Episodes fit a tiny model: token counts under a 1,024-token tokenizer trained on the desk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recollect.envs.desk.environment import Desk
from recollect.envs.tools import with_signatures
from recollect.envs.transcript import Script, play
from recollect.types import Task

MARKERS = 2  # tokens that say who speaks and where it ends

desk = Desk(size=80)


def texts(task: Task) -> Iterator[str]:
    played = play(desk, task, Script(desk.gold(task)))
    for message in with_signatures(played.opening):
        yield message.text
    for exchange in played.exchanges:
        yield exchange.text
        for message in exchange.turn.messages:
            yield message.text


def test_gold_episodes_are_short_enough_to_learn_on_a_laptop():
    tokenizers = pytest.importorskip("tokenizers")
    level = tokenizers.pre_tokenizers.ByteLevel
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=["<tool_call>", "</tool_call>"],
        initial_alphabet=level.alphabet(),
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = level(add_prefix_space=False)
    tokenizer.train_from_iterator((t for k in desk.tasks("train") for t in texts(k)), trainer)
    lengths: dict[int, list[int]] = {}
    for task in desk.tasks("test"):
        length = sum(len(tokenizer.encode(t).ids) + MARKERS for t in texts(task))
        lengths.setdefault(task.level, []).append(length)
    means = {n: sum(found) / len(found) for n, found in lengths.items()}
    assert 100 <= means[1] <= 200
    assert means[4] <= 320
    assert max(lengths[4]) < 450
