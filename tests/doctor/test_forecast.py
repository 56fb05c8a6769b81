"""The bound of replay, the recommendation and the sums, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.doctor import forecast as forecasting
from recollect.doctor.forecast import forecast, recommended_uses
from recollect.doctor.measuring import Measured, measure

from .runs import QUIET, WORLDS, Clinic, make_config

# Three quarters of a step are generation; all of its 64 rows carry signal.
MEASURED = Measured(
    steps=3,
    generated=64.0,
    trained=64.0,
    collect=3.0,
    update=0.9,
    rest=0.1,
    evaluating=2.0,
    checkpoint=0.5,
    peak_memory=10**9,
    row_bytes=1000.0,
    checkpoint_bytes=4000,
)


def config_of(*flags: str) -> Config:
    return load_config(None, ["run.steps=10", "eval.every=4", "checkpoint.every=4", *flags]).config


def test_the_bound(tmp_path: Path) -> None:
    found = forecast(config_of(), MEASURED, tmp_path)
    assert found.share == 0.75
    assert found.bound == pytest.approx(4.0)
    # From 1 to 2 uses: 3/8 of the time; to 3: 1/8; to 4: 1/16; to 5: 3/80, less than 5 %.
    assert found.uses == 4
    assert found.speedup == pytest.approx(1 / (0.75 / 4 + 0.25))
    assert (found.updates, found.rows, found.ratio) == (3, 64, 4.0)


@pytest.mark.parametrize("uses", [1, 2, 3, 4])
def test_the_bound_is_what_counting_gives(tmp_path: Path, uses: int) -> None:
    """N trained rows of c_g + c_t seconds, each generated row trained on k times."""
    limit = (f"pool.max_uses={uses - 1}",) if uses > 1 else ()
    slow = MEASURED if uses > 1 else replace(MEASURED, collect=0.05)  # nothing worth saving
    found = forecast(config_of(*limit), slow, tmp_path)
    rows = 6000
    generate, other = slow.collect / 64, (slow.update + slow.rest) / 64
    fresh = rows * (generate + other)
    replayed = rows / uses * generate + rows * other
    assert found.uses == uses
    assert found.speedup == pytest.approx(fresh / replayed)
    assert found.bound == pytest.approx(fresh / (rows * other))


@pytest.mark.parametrize(
    ("share", "limit", "uses"),
    [(0.0, None, 1), (0.09, None, 1), (0.1, None, 2), (0.5, None, 3), (0.9, None, 4),
     (1.0, None, 5), (0.9, 2, 3), (0.9, 1, 2)],
)  # fmt: skip
def test_the_recommendation(share: float, limit: int | None, uses: int) -> None:
    assert recommended_uses(share, limit) == uses


def test_rows_without_signal_are_not_trained(tmp_path: Path) -> None:
    """With half of the rows dead, four uses of each trained row are half as many stored rows."""
    found = forecast(config_of(), replace(MEASURED, trained=32.0), tmp_path)
    assert (found.uses, found.updates, found.rows, found.ratio) == (4, 2, 48, 2.0)
    assert found.speedup == pytest.approx(1 / (0.75 / 4 + 0.25))
    nothing = forecast(config_of(), replace(MEASURED, trained=0.0), tmp_path)
    assert nothing.bound is None
    assert (nothing.updates, nothing.speedup) == (0, 1.0)
    assert "no row carried signal" in nothing.problems[0]


def test_the_time_of_the_run(tmp_path: Path) -> None:
    found = forecast(config_of(), MEASURED, tmp_path)
    # At the start, after 4, 8 and 10 steps; checkpoints after 4, 8 and 10.
    assert (found.evaluations, found.checkpoints) == (4, 3)
    assert found.seconds == pytest.approx(10 * 4.0 + 4 * 2.0 + 3 * 0.5)
    assert found.store_bytes == 640_000
    assert found.checkpoint_bytes == 3 * 4000
    # Two buffer updates of 64 rows more, at 0.9 s for 64 rows.
    more = forecast(config_of("replay.modes=[buffer]"), MEASURED, tmp_path)
    assert more.steps_seconds == pytest.approx(10 * (4.0 + 2 * 0.9))
    never = forecast(config_of("eval.every=0", "checkpoint.every=0"), MEASURED, tmp_path)
    assert (never.evaluations, never.checkpoints) == (0, 1)


def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert forecast(config_of(), MEASURED, tmp_path).problems == ()
    monkeypatch.setattr(forecasting, "free_bytes", lambda folder: 1000)
    monkeypatch.setattr(forecasting, "machine_memory", lambda: 1_100_000_000)
    disk, memory = forecast(config_of(), MEASURED, tmp_path).problems
    assert "store.compress=true" in disk
    assert "train.pack_tokens" in memory


def test_measuring_leaves_nothing_behind(
    clinic: Clinic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.db"
    flags = (
        *(*QUIET, "eval.every=5", "eval.tasks=16", "run.steps=100", "run.folder=not/there"),
        *("train.warmup_steps=7", "replay.modes=[mix,buffer]", f"store.path={other}"),
    )
    found = measure(make_config(clinic.model, *flags, world=f"{WORLDS}:EarlyLetters"), 2)
    assert list(tmp_path.iterdir()) == []
    assert (found.steps, found.generated) == (2, 8)
    assert 0 < found.trained <= 8
    assert min(found.collect, found.update, found.checkpoint, found.evaluating or 0) > 0
    assert found.row_bytes > 500
    assert found.checkpoint_bytes > 1000
