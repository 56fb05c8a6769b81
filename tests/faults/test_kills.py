"""kill -9 at random moments of a committing writer: nothing acknowledged is lost, nothing torn."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.errors import PromiseBroken
from recollect.proof.killing import Tally, Victim, kill_many
from recollect.proof.life import Operation, make_life
from recollect.store.base import Store
from recollect.store.records import Batch
from reporting import chosen_seed, report

QUICK, LONG = 102, 1050  # kills per journal mode


def assert_meaningful(tally: Tally) -> None:
    """Most kills must have hit a writer at work, and all kinds of work must have been hit."""
    idle = sum(tally.moments[name] for name in ("idle", "opening"))
    assert idle < tally.kills / 2, tally.moments
    assert tally.rows_checked > 10 * tally.kills, "stores must have something to lose"
    assert tally.slowest_lock < 1.0


@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_kills(tmp_path: Path, journal: str) -> None:
    tally = kill_many(tmp_path, journal, QUICK, chosen_seed("kills"))
    report(tally.summary(f"kill -9 ({journal})"))
    assert_meaningful(tally)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_many_kills(tmp_path: Path, journal: str) -> None:
    tally = kill_many(tmp_path, journal, LONG, chosen_seed("many kills"))
    report(tally.summary(f"kill -9, long ({journal})"))
    assert_meaningful(tally)
    for moment in ("creation", "opening", "commit", "fence", "reclaim", "reopen"):
        assert tally.moments[moment] > 0, f"no kill hit {moment}: {tally.moments}"


# -- the harness itself --------------------------------------------------------------------------


class Liar(Victim):
    """Acknowledges before it has written."""

    def do(self, store: Store, operation: Operation, acknowledge: Callable[[], object]) -> None:
        acknowledge()
        operation.do(store)


class Dribbler(Victim):
    """Writes a step in several transactions."""

    def do(self, store: Store, operation: Operation, acknowledge: Callable[[], object]) -> None:
        for batch in operation.batches:
            for row in batch.trajectories:
                store.commit(Batch(trajectories=[row]))
                time.sleep(0.001)
        operation.do(store)
        acknowledge()


@pytest.mark.parametrize(("kind", "says"), [(Liar, "lost"), (Dribbler, "too many")])
def test_a_bad_writer_is_found_out(tmp_path: Path, kind: type[Victim], says: str) -> None:
    """A test that cannot fail proves nothing: writers that break their word must be caught."""
    chance = random.Random(1)
    complaint = ""
    for number in range(20):
        victim = kind(tmp_path / f"{number}" / "pool.db", "truncate", make_life(number, 60))
        while victim.steps_left > 10 and not complaint:
            try:
                victim.kill_once(2 + chance.randrange(8), chance.uniform(0, 0.008), Tally())
            except PromiseBroken as error:
                complaint = error.what
        if complaint:
            break
    assert says in complaint
