"""Proofs that can fail: each is shown something broken, and says so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.errors import BadConfig, NotTried, PromiseBroken, StoreFull
from recollect.errors.extras import install_command
from recollect.proof import drawing, estimators, filling, flips, promises, resuming
from recollect.proof.life import make_life
from recollect.proof.promises import PROMISES, Promise, prove
from recollect.replay import blocks
from recollect.replay.groups import one_of_each
from recollect.store.sqlite import SqliteReader, SqliteStore


def trial(name: str) -> Promise:
    return next(promise for promise in PROMISES if promise.name == name)


@pytest.mark.parametrize("name", ["flips", "full", "draws", "gradients"])
def test_they_hold_here(tmp_path: Path, name: str) -> None:
    (verdict,) = prove(tmp_path, [trial(name)])
    assert verdict.holds is True, verdict.evidence
    assert verdict.seconds > 0
    assert list(tmp_path.iterdir()) == []


def test_a_failure_by_another_name_is_no_proof(tmp_path: Path) -> None:
    def full(folder: Path) -> str:
        raise StoreFull(folder, 0)

    def cannot(folder: Path) -> str:
        raise NotTried("why not")

    first, second = prove(tmp_path, [Promise("a", "A", full), Promise("b", "B", cannot)])
    assert (first.holds, second.holds, second.evidence) == (False, None, "why not")


def test_the_folder_goes_when_somebody_stops_listening(tmp_path: Path) -> None:
    verdicts = prove(tmp_path, [trial("draws"), trial("draws")])
    next(verdicts)
    verdicts.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "find_spec", lambda name: None)
    verdicts = list(prove(tmp_path, [trial("gradients"), trial("resume")]))
    assert [verdict.holds for verdict in verdicts] == [None, None]
    assert install_command("train") in verdicts[0].evidence


def test_damage_that_nobody_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = flips.make_frames(tmp_path / "frames.db", tokens=24, rows=4)
    monkeypatch.setattr(SqliteReader, "verify", lambda self: iter(()))
    with pytest.raises(PromiseBroken, match="verify blames the wrong rows"):
        flips.flip_frames(frames, 10, seed=1)
    whole = flips.whole_store(tmp_path, "truncate")
    with pytest.raises(PromiseBroken, match=r"flip .* at .*verify finds nothing"):
        flips.flip_anywhere(whole, 200, seed=1)


def test_damage_that_is_blamed_on_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = flips.make_frames(tmp_path / "pool.db", tokens=24, rows=4)
    quarantine = SqliteStore.quarantine

    def too_many(self: SqliteStore, ids: Any, reason: str) -> Any:
        return quarantine(self, list(frames.rows), reason)

    monkeypatch.setattr(SqliteStore, "quarantine", too_many)
    with pytest.raises(PromiseBroken, match="set aside are the wrong rows"):
        flips.flip_frames(frames, 10, seed=1)


def test_a_full_store_that_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def claims_more(store: SqliteStore, life: Any) -> int:
        return 1 + until_full(store, life)

    until_full = filling.do_until_full
    monkeypatch.setattr(filling, "do_until_full", claims_more)
    with pytest.raises(PromiseBroken, match=r"at 4 pages: .* lost"):
        filling.stop_at_limit(tmp_path / "pool.db", "truncate", make_life(2, 12, tokens=1600), 4)


def test_draws_that_favour_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "systematic", lambda weights, count, rng: np.arange(count))
    with pytest.raises(PromiseBroken, match=r"drew .* not the rows with weight"):
        drawing.enumerate_draws(tmp_path / "pool.db", 10, 3)


def test_draws_that_favour_the_first_of_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evenly(weights: Any, sums: Any, starts: Any, rng: Any) -> Any:
        return one_of_each((weights > 0).astype(float), np.full(starts.size, 2.0), starts, rng)

    monkeypatch.setattr(blocks, "one_of_each", evenly)
    with pytest.raises(PromiseBroken, match=r"drawn 0\.1.* more or less often than told"):
        drawing.enumerate_draws(tmp_path / "pool.db", 20, 30)


def test_a_gradient_that_is_not_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = estimators.replayed_losses

    def louder(*arguments: Any) -> Any:
        found, diagnostics = losses(*arguments)
        return 1.01 * found, diagnostics

    monkeypatch.setattr(estimators, "replayed_losses", louder)
    with pytest.raises(PromiseBroken, match="correction weight of token ratios is off by"):
        estimators.enumerate_corrections(1)


def test_a_run_that_comes_back_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    monkeypatch.setattr(resuming, "_to_the_end", lambda arguments: None)
    monkeypatch.setattr(resuming, "_kill", lambda arguments, metrics, lines: True)
    monkeypatch.setattr(resuming, "trace", lambda run: {"weights": chance.random()})
    with pytest.raises(PromiseBroken, match="the run's weights differs"):
        resuming.resume_exactly(tmp_path)


def test_a_run_that_is_never_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "_to_the_end", lambda arguments: None)
    monkeypatch.setattr(resuming, "_kill", lambda arguments, metrics, lines: False)
    (verdict,) = prove(tmp_path, [trial("resume")])
    assert verdict.holds is None
    assert "ended before it could be killed, 3 times" in verdict.evidence


def test_a_command_that_fails_or_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PromiseBroken, match="`resume /no/such/run` failed: error: "):
        resuming._to_the_end(["resume", "/no/such/run"])
    monkeypatch.setattr(resuming, "_SECONDS", 0.01)
    with pytest.raises(PromiseBroken, match="did not end"):
        resuming._to_the_end(["resume", "/no/such/run"])


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RECOLLECT_SEED", "77")
    return iter(())


@pytest.mark.usefixtures("seeds")
def test_a_failure_can_be_repeated() -> None:
    assert promises._seed() == 77


@pytest.mark.parametrize("seed", ["abc", "-1", "", "9" * 5000])
def test_a_seed_that_is_none_is_an_error_and_no_broken_promise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: str
) -> None:
    monkeypatch.setenv("RECOLLECT_SEED", seed)
    with pytest.raises(BadConfig, match="RECOLLECT_SEED="):
        next(prove(tmp_path))
