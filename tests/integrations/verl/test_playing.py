"""Attempts at a table: the environment here, somebody else's server there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.envs.registry import load_environment
from recollect.integrations.verl.asking import Order, Played
from recollect.integrations.verl.playing import Said, Speaker, lay_table
from recollect.notes.inject import Guidance, PromptNote
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.train.parts import make_collector
from recollect.train.schedule import training_tasks
from recollect.trajectory import Trajectory
from recollect.types import NoteId, Origin, RunId, Sampling, SegmentKind
from train.small import WORLDS, load_small, make_config


def orders(config: Any, count: int = 2, guidance: Guidance | None = None) -> list[Order]:
    environment = load_environment(config.environment.name)
    task = training_tasks(environment, config.environment)[0]
    more = {} if guidance is None else {"guidance": guidance}
    return [
        Order(
            Request.of(task, RunId("run"), 1, row, policy_version=5, seed=0, **more),
            Sampling(1.0),
            5,
        )
        for row in range(count)
    ]


def play(config: Any, asked: list[Order], speak: Speaker) -> list[Played]:
    table = lay_table(config)

    async def all_at_once() -> list[Played]:
        return list(await asyncio.gather(*(table.play(order, speak) for order in asked)))

    try:
        return asyncio.run(all_at_once())
    finally:
        table.close()


class Server:
    """Says letters and stops; remembers what it was asked."""

    def __init__(self, stop: bool = True, version: int | None = 5) -> None:
        self.asked: list[tuple[list[int], dict[str, Any]]] = []
        self._stop = stop
        self._version = version

    async def __call__(self, prompt: list[int], settings: dict[str, Any]) -> Said:
        self.asked.append((prompt, dict(settings)))
        await asyncio.sleep(0)
        words = [10, 11, settings["stop_token_ids"][0]] if self._stop else [10] * 6
        words = words[: settings["max_tokens"]]
        return Said(words, [-0.5 - 0.1 * n for n in range(len(words))], self._version)


def test_two_attempts_are_played_together_turn_by_turn(model: Path) -> None:
    config = make_config(model)
    asked, server = orders(config), Server()
    played = play(config, asked, server)
    for order, each in zip(asked, played, strict=True):
        row = each.result(order.request)
        assert isinstance(row, Trajectory)
        assert each.turns == 2
        assert row.policy_version == 5
        assert row.entropies is None
        assert row.sampled_count == 6
        assert row.logprobs is not None
        np.testing.assert_allclose(row.logprobs, [-0.5, -0.6, -0.7] * 2, rtol=1e-6)
        assert [s.kind for s in row.segments][-1] is SegmentKind.ASSISTANT
    # A later turn begins with everything that was said before it, as it was said.
    first, later = (prompt for prompt, _ in sorted(server.asked, key=lambda a: len(a[0]))[::2])
    assert later[: len(first)] == first
    assert later[len(first) : len(first) + 3] == [10, 11, server.asked[0][1]["stop_token_ids"][0]]


def test_prompts_are_those_of_the_collector(model: Path) -> None:
    config = make_config(model)
    asked, server = orders(config, 1), Server()
    play(config, asked, server)
    environment = load_environment(config.environment.name)
    collector = make_collector(config, environment, load_small(model))
    row = collector.collect([asked[0].request], Sampling()).trajectories[0]
    first = int(np.flatnonzero(row.sampled)[0])
    assert server.asked[0][0] == row.tokens[:first].tolist()
    table = lay_table(config)
    assert table.fingerprints == collector.fingerprints
    assert table.rules.limits == collector._rules.limits
    assert table.rules.chat.stop_ids == collector._rules.chat.stop_ids
    collector.close()
    table.close()


def test_every_turn_has_a_chance_of_its_own_and_keeps_it(model: Path) -> None:
    config = make_config(model)
    one, again = Server(), Server()
    for server in (one, again):
        play(config, orders(config), server)
    seeds = [settings["seed"] for _, settings in one.asked]
    assert len(set(seeds)) == 4
    assert sorted(seeds) == sorted(settings["seed"] for _, settings in again.asked)


def test_notes_stand_in_the_prompt(model: Path) -> None:
    config = make_config(model)
    notes = Guidance((PromptNote(NoteId("n1"), " Use a."),))
    asked, server = orders(config, 1, notes), Server()
    row = play(config, asked, server)[0].result(asked[0].request)
    assert isinstance(row, Trajectory)
    assert row.origin is Origin.GUIDED
    assert [span.note for span in row.notes] == ["n1"]


def test_a_turn_that_is_cut_ends_the_attempt(model: Path) -> None:
    config = make_config(model)
    asked = orders(config, 1)
    row = play(config, asked, Server(stop=False))[0].result(asked[0].request)
    assert isinstance(row, Trajectory)
    assert row.stop.value == "token_limit"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Said((), ()), "no token"),
        (Said((10,), ()), "0 log-probs for 1 tokens"),
        (Said((10,), (-1.0,), 4), "sampled by weights 4, asked for 5"),
        (RuntimeError("out of memory"), "out of memory"),
    ],
)
def test_a_server_that_fails_costs_one_attempt(model: Path, said: Any, why: str) -> None:
    config = make_config(model)
    asked, server = orders(config), Server()
    bad = asked[1].request

    async def speak(prompt: list[int], settings: dict[str, Any]) -> Said:
        if len(server.asked) == 1:
            server.asked.append((prompt, settings))
            if isinstance(said, Exception):
                raise said
            return said
        return await server(prompt, settings)

    results = [
        each.result(order.request)
        for each, order in zip(play(config, asked, speak), asked, strict=True)
    ]
    failures = [found for found in results if isinstance(found, Failure)]
    assert len(failures) == 1
    assert why in failures[0].reason
    assert bad.id != asked[0].request.id


def test_an_environment_that_fails_costs_one_attempt(model: Path) -> None:
    config = make_config(model, world=f"{WORLDS}:Flaky")
    asked = orders(config, 12)
    results = [
        each.result(order.request)
        for each, order in zip(play(config, asked, Server()), asked, strict=True)
    ]
    assert {type(found) for found in results} == {Trajectory, Failure}
