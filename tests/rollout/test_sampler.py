from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from models.architectures import ARCHITECTURES, make_model, shared_model
from recollect.rollout import sampler as sampler_module
from recollect.rollout.cache import SlotCache
from recollect.rollout.sampler import Row, Sampler
from recollect.types import Sampling

from .scripts import STOPS, Script, play, recompute, scripts, tokens


class Watch:
    """Notes the shape [B, Q] of every forward pass of a model."""

    def __init__(self, model: Any) -> None:
        self.shapes: list[tuple[int, int]] = []
        self._hook = model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, model: Any, args: Any, kwargs: Any) -> None:
        self.shapes.append(tuple(kwargs["input_ids"].shape))

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()


def _assert_recorded(model: Any, script: Script, temperature: float = 1.0) -> None:
    logprobs, entropies = recompute(model, script, temperature)
    np.testing.assert_allclose(script.row.logprobs, logprobs.numpy(), atol=1e-5, rtol=0)
    np.testing.assert_allclose(script.row.entropies, entropies.numpy(), atol=1e-5, rtol=0)


# -- what is recorded is what the model says -------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "batch_rows"),
    [("llama-gqa", 1), *((name, rows) for name in ARCHITECTURES for rows in (3, 64))],
)
def test_recorded_values_equal_a_plain_pass(architecture: str, batch_rows: int) -> None:
    model, played = shared_model(architecture), scripts()
    play(model, played, batch_rows=batch_rows)
    for script in played:
        assert len(script.turns) == len(script.replies) + 1
        _assert_recorded(model, script)
    assert len({len(turn) for script in played for turn in script.turns}) > 3


@pytest.mark.parametrize(
    "sampling",
    [Sampling(0.0), Sampling(0.5), Sampling(1.7), Sampling(1.0, top_p=0.6), Sampling(0.8, 1.0, 5)],
)
def test_recorded_values_are_those_of_the_temperature(sampling: Sampling) -> None:
    model, played = shared_model("qwen3"), scripts()
    play(model, played, sampling, batch_rows=4)
    for script in played:
        _assert_recorded(model, script, sampling.temperature)


def test_greedy_sampling_equals_generate_of_transformers() -> None:
    model, prompt = shared_model("llama-gqa"), tokens(9, 4)
    script = Script(prompt, [], 20, 0)
    play(model, [script], Sampling(0.0), stops=())
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    assert model.generate(torch.tensor([prompt]), **options)[0].tolist() == script.ids


# -- rows do not depend on each other ---------------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama-gqa", "gpt2"])
def test_rows_do_not_depend_on_their_order_or_the_size_of_the_batch(architecture: str) -> None:
    model, wanted = shared_model(architecture), scripts()
    play(model, wanted)
    backwards, shuffled = range(10, -1, -1), (3, 0, 9, 1, 7, 10, 5, 2, 8, 4, 6)
    for batch_rows, order in ((1, range(11)), (2, shuffled), (5, backwards), (11, shuffled)):
        found = scripts()
        play(model, [found[n] for n in order], batch_rows=batch_rows)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.ids == theirs.ids
            np.testing.assert_allclose(ours.row.logprobs, theirs.row.logprobs, atol=1e-5)


def test_the_same_rows_give_the_same_result_to_the_last_bit() -> None:
    model, first, second = shared_model("smollm2"), scripts(), scripts()
    play(model, first, batch_rows=5)
    play(model, second, batch_rows=5)
    for ours, theirs in zip(first, second, strict=True):
        assert ours.ids == theirs.ids
        assert ours.row.logprobs == theirs.row.logprobs
        assert ours.row.entropies == theirs.row.entropies


def test_another_stream_gives_another_row() -> None:
    model = shared_model("llama")
    first, second = (Script(tokens(5, 1), [], 12, seed) for seed in (1, 2))
    play(model, [first, second], stops=())
    assert first.ids != second.ids


def test_each_token_has_a_random_number_of_its_own() -> None:
    model = shared_model("llama")
    script = Script(tokens(5, 1), [tokens(3, 2)], 4, 0)
    script.row.uniforms[:] = 0.0  # always the first token that is possible
    play(model, [script], stops=())
    assert [token for turn in script.turns for token in turn] == [0] * 8
    assert script.row.sampled == 8


# -- turns, limits, ends ----------------------------------------------------------------------


def test_a_turn_ends_with_a_stop_or_at_its_limit() -> None:
    played = scripts()
    play(shared_model("llama"), played)
    ended = [turn[-1] in STOPS for script in played for turn in script.turns]
    assert any(ended)
    assert not all(ended)
    for script in played:
        for turn in script.turns:
            assert not any(token in STOPS for token in turn[:-1])
            assert turn[-1] in STOPS or len(turn) == script.turn_limit


def test_a_limit_can_change_between_turns() -> None:
    script = Script(tokens(4, 0), [tokens(2, 1)], 5, 0)
    sampler = Sampler(shared_model("llama"), (), 2)

    def end_turns(rows: Sequence[Row]) -> None:
        script.end_turn()
        script.row.turn_limit = 1

    sampler.run([script.row], Sampling(), end_turns)
    assert [len(turn) for turn in script.turns] == [5, 1]


def test_nothing_to_do_is_done() -> None:
    ended: list[Sequence[Row]] = []
    Sampler(shared_model("llama"), ()).run([], Sampling(), ended.append)
    assert ended == []


def test_rows_that_end_together_are_reported_together() -> None:
    played = [Script(tokens(4, n), [], 3, n) for n in range(6)]
    reported: list[int] = []

    def end_turns(rows: Sequence[Row]) -> None:
        reported.append(len(rows))
        for row in rows:
            row.done = True

    sampler = Sampler(shared_model("llama"), (), 4)
    sampler.run([script.row for script in played], Sampling(), end_turns)
    assert reported == [4, 2]


# -- the work that is done --------------------------------------------------------------------


def test_a_prompt_is_computed_once_for_its_group() -> None:
    model = shared_model("llama")
    played = [Script(tokens(20, n % 2), [], 3, n) for n in range(8)]
    with Watch(model) as watch:
        play(model, played, stops=())
    assert watch.shapes == [(2, 20), (8, 1), (8, 1)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_tasks_begin_with_is_computed_once(architecture: str) -> None:
    """Two domains, three tasks of each, two rows of a task; and a task of no domain."""
    model, rules = shared_model(architecture), [tokens(40, 1), tokens(50, 2)]
    prompts = [[*rules[n % 2], *tokens(3 + n, 10 + n)] for n in range(6)]
    played = [Script(prompt, [tokens(3, n)], 6, 2 * n + m)
              for n, prompt in enumerate([*prompts, tokens(33, 3)]) for m in range(2)]  # fmt: skip
    with Watch(model) as watch:
        play(model, played)
    assert watch.shapes[:2] == [(2, 50), (7, 33)]
    for script in played:
        _assert_recorded(model, script)


def test_the_past_is_never_computed_again() -> None:
    model = shared_model("llama")
    played = [Script(tokens(20, n), [tokens(6, 3, n)], 4, n) for n in range(4)]
    with Watch(model) as watch:
        play(model, played, stops=())
    # prompts; three steps; the last sampled token with the answers; three steps
    assert watch.shapes == [(4, 20), *[(4, 1)] * 3, (4, 7), *[(4, 1)] * 3]


def test_a_few_rows_with_much_to_read_do_not_stop_the_others() -> None:
    model = shared_model("llama")
    slow = Script(tokens(5, 1), [tokens(6, 2)], 1, 0)
    others = [Script(tokens(5, 1), [], 30, n) for n in range(1, 32)]
    with Watch(model) as watch:
        play(model, [slow, *others], stops=())
    assert watch.shapes == [(1, 5), *[(32, 1)] * 7, *[(31, 1)] * 22]
    _assert_recorded(model, slow)


def test_no_row_waits_for_a_queue_of_others() -> None:
    # Others come and go in one turn each; the first row must not wait for the end of the queue.
    model = shared_model("llama")
    slow = Script(tokens(5, 1), [tokens(9, 2), tokens(9, 3)], 2, 0)
    others = [Script(tokens(5, 1), [], 2, n) for n in range(1, 400)]
    finished_after: list[int] = []
    with Watch(model) as watch:
        owners = {id(script.row): script for script in (slow, *others)}

        def end_turns(rows: Sequence[Row]) -> None:
            for row in rows:
                owners[id(row)].end_turn()
            if slow.row.done and not finished_after:
                finished_after.append(len(watch.shapes))

        every = [script.row for script in (slow, *others)]
        Sampler(model, (), 32).run(every, Sampling(), end_turns)
    assert finished_after[0] <= 40


def test_rows_are_asked_for_when_there_is_room() -> None:
    model, begun, running = shared_model("llama"), [], []
    played = [Script(tokens(4, n), [], 2 + n % 5, n) for n in range(40)]
    owners = {id(script.row): script for script in played}

    def rows() -> Iterator[Row]:
        for number, script in enumerate(played):
            begun.append(number)
            yield script.row

    def end_turns(ended: Sequence[Row]) -> None:
        for row in ended:
            owners[id(row)].end_turn()
        running.append(len(begun) - sum(script.row.done for script in played))

    Sampler(model, (), 8).run(rows(), Sampling(), end_turns)
    assert len(begun) == 40
    assert max(running) <= 8


@pytest.mark.parametrize("most", [8, 30, 64])
def test_long_prompts_are_read_in_parts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    model, wanted, found = shared_model("llama-gqa"), scripts(), scripts()
    play(model, wanted)
    monkeypatch.setattr(sampler_module, "_MOST_TOKENS", most)
    with Watch(model) as watch:
        play(model, found)
    assert max(rows * width for rows, width in watch.shapes if width > 1) <= most
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.ids == theirs.ids
        _assert_recorded(model, ours)


def test_memory_is_given_back() -> None:
    gc.collect()
    play(shared_model("llama"), scripts())
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found) is SlotCache]


@pytest.mark.parametrize("is_training", [True, False])
def test_the_model_is_left_as_it_was(is_training: bool) -> None:
    model = make_model("gpt2").train(is_training)  # with dropout, while it trains

    def explode(rows: Sequence[Row]) -> None:
        raise RuntimeError("boom")

    first, second = scripts(), scripts()
    play(model, first)
    play(model, second)
    assert [s.ids for s in first] == [s.ids for s in second]
    assert model.training is is_training
    with pytest.raises(RuntimeError, match="boom"):
        Sampler(model, ()).run([scripts()[0].row], Sampling(), explode)
    assert model.training is is_training
    assert all(p.requires_grad and not p.is_inference() for p in model.parameters())


def test_the_model_says_how_many_positions_it_has() -> None:
    assert Sampler(shared_model("gpt2"), ()).max_positions == 512
    assert Sampler(shared_model("qwen3"), ()).max_positions == 512
