"""Exact resume of PPO with a buffer: critic, priorities, credits and limits come back as they were.

Killed at random moments, and killed while stored rows are being trained on.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recollect.store import open_reader
from train.processes import cli, run_cli, start
from train.replays import EVERYTHING

from .killing import Undisturbed, compare, train_command
from .test_replay_kills import BASE, RUN, STEPS, checked_trace, kill_and_check

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

USES, AGE = 2, 9
LIMITS = (f"pool.max_uses={USES}", f"pool.max_age={AGE}", "pool.max_rows=30")
PPO = (*BASE, *LIMITS, "algo.advantage=gae", "replay.modes=[buffer]", "replay.buffer_rows=4")
PRIORITIZED = (
    *PPO,
    "draw.priority=td_error",
    "draw.floor=0.01",
    "draw.beta=0.4",
    "draw.beta_growth=0.1",
    "replay.buffer_epochs=2",
    "adapt.controller=true",
    "adapt.uses=kl",
    f"adapt.calm_uses={USES}",
    "adapt.moving_uses=1",
    "adapt.early_rows=20",
    "adapt.target_ess=0.8",
)
STORED = (
    *BASE,
    *EVERYTHING,
    *LIMITS,
    "algo.advantage=gae",
    "critic.kind=model",
    "critic.at_use=stored",
    "algo.kl_coef=0.1",
    "algo.kl_in=reward",
    "algo.kl_estimator=k1",
    "train.minibatches=2",
)


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(model, tmp_path_factory.mktemp("undisturbed"), checked_trace)


def check_limits(folder: Path) -> None:
    """No draw of a row that was too old or used up, in the ledger as it counts now."""
    with open_reader(folder / "store.db") as store:
        draws = [draw for step in range(STEPS + 1) for draw in store.draws(RUN, step)]
        assert max(draw.age for draw in draws) <= AGE
        assert max(Counter(use.trajectory for use in store.uses(RUN)).values()) <= USES


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.long)])
def test_killed_at_random_moments(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_check(model, tmp_path, PRIORITIZED, kills, undisturbed[PRIORITIZED])
    check_limits(tmp_path / "run 0" / "run")


def _die_in_replay(log: str, arguments: list[str], at: int) -> None:
    """Run the command line, and die before the n-th optimiser step that has stored rows."""
    from recollect.train.learner import Learner

    count, step = 0, Learner._step

    def watched(self: Learner, rows: Any, *rest: Any) -> None:
        nonlocal count
        count += any(row.pick is not None for row in rows)
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
        step(self, rows, *rest)

    Learner._step = watched  # type: ignore[method-assign]
    cli(log, arguments)


@pytest.mark.parametrize(
    ("flags", "at"),
    [
        pytest.param(PRIORITIZED, 10, id="second pass over a draw"),
        pytest.param(STORED, 8, id="stored credits, a critic of its own"),
        # How many such steps there are depends on rounding: the controller decides by figures.
        *(pytest.param(PRIORITIZED, n, marks=pytest.mark.long) for n in range(1, 17, 3)),
    ],
)
def test_killed_inside_the_replay_phase(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, flags: tuple[str, ...], at: int
) -> None:
    expected, log = undisturbed[flags], tmp_path / "log"
    child = start(_die_in_replay, str(log), train_command(model, tmp_path, flags), at)
    child.join(120)
    assert child.exitcode == -signal.SIGKILL, log.read_text()
    assert run_cli(log, "resume", tmp_path / "run") == 0, log.read_text()
    assert "critic.safetensors" in expected["checkpoint"]
    compare(checked_trace(tmp_path / "run"), expected)
    check_limits(tmp_path / "run")
