from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recollect.config.loading import load_config
from recollect.replay.inspection import make_simulator
from recollect.replay.simulation import Pace, simulate
from recollect.store.records import Provenance

from .pools import TASKS, Plant, planted, task

FLAGS = ["replay.modes=[buffer]", "replay.buffer_rows=4", "draw.priority=equal"]


def test_a_demo_that_was_added_last_does_not_say_whose_rows_are_drawn() -> None:
    """Its fingerprints are those of no tokenizer: with them nothing could be drawn at all."""
    text_only = Plant(TASKS[1], version=None, prints=Provenance("", "1", "1"))
    with planted(Plant(version=3, advantage=1.0), Plant(version=4, advantage=-1.0)) as store:
        config = load_config(None, FLAGS).config
        replayer, version = make_simulator(store, config)
        before = simulate(replayer, 2, 1, version, Pace())
        assert (version, before.eligible) == (5, 2)
    with planted(
        Plant(version=3, advantage=1.0), Plant(version=4, advantage=-1.0), text_only
    ) as store:
        replayer, version = make_simulator(store, config)
        after = simulate(replayer, 2, 1, version, Pace())
        assert (version, after.eligible, after.draws) == (5, 2, before.draws)


def test_a_pool_of_demos_alone_can_be_looked_at() -> None:
    with planted(Plant(version=None)) as store:
        replayer, version = make_simulator(store, load_config(None, FLAGS).config)
        assert (version, simulate(replayer, 1, 1, version, Pace()).draws) == (0, 0)


def test_uses_at_the_steps_of_a_long_run_are_no_reason_to_rest() -> None:
    """Steps are counted from 1 here: a row last used at step 500 would rest for ever."""
    with planted(Plant(version=3, advantage=1.0, used=(500,))) as store:
        config = load_config(None, [*FLAGS, "pool.cooldown=1", "pool.max_uses=none"]).config
        replayer, version = make_simulator(store, config)
        assert simulate(replayer, 6, 1, version, Pace()).draws == 3  # every second step


@pytest.mark.parametrize(
    ("flags", "tasks"),
    [
        (["environment.domains=none"], {0, 1, 2, 3}),
        (["environment.domains=[retail]"], {0, 1}),
        (["environment.levels=[2]"], {1, 3}),
        (["environment.domains=[retail]", "environment.levels=[2]"], {1}),
        (["environment.domains=[telecom]"], set()),
    ],
)
def test_only_the_tasks_that_are_asked_for_are_drawn(flags: list[str], tasks: set[int]) -> None:
    all_ = [replace(task(n, "retail" if n < 2 else "airline"), level=1 + n % 2) for n in range(4)]
    with planted(*(Plant(each, version=3, advantage=1.0) for each in all_)) as store:
        config = load_config(None, [*FLAGS, *flags]).config
        replayer, version = make_simulator(store, config)
        replayer.begin(1, 1, version)
        rows = replayer.pool.ids(np.flatnonzero(replayer.can_be_drawn))
        assert {int(name.removeprefix("row-")) for name in rows} == tasks
