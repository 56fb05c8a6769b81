"""PPO in the training loop: credit by token, stored rows credited anew, limits that hold."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from recollect.store.records import Query
from recollect.telemetry.reading import read_metrics
from recollect.train.batch import ScoredRow
from telemetry.naming import undocumented

from .replays import EVERYTHING
from .test_replay_loop import RUN, STEPS, Watched, first_draw, store_of, watched_run

PPO = ("algo.advantage=gae", "environment.tasks=4")
BUFFER = (*PPO, "replay.modes=[buffer]", "replay.buffer_rows=3")
KINDS = {
    "no replay": PPO,
    "buffer": (*BUFFER, "draw.priority=td_error", "draw.floor=0.01", "draw.beta=0.5"),
    "a critic of its own": (*BUFFER, "critic.kind=model", "critic.learning_rate=0.01"),
    "adapters": (*BUFFER, "model.lora.rank=2", "critic.policy_weight=0.5"),
    "kl in the reward": (*BUFFER, "algo.kl_coef=0.2", "algo.kl_in=reward"),
    "kl in the loss": (*BUFFER, "algo.kl_coef=0.2", "algo.kl_estimator=k3"),
    "as stored": (*BUFFER, "critic.at_use=stored"),
    "every mode": (*PPO, *EVERYTHING, "train.epochs=2", "train.minibatches=2"),
    "one row a task": (*PPO, "rollout.rows_per_task=1", "algo.whiten=scale"),
}


def every_row(seen: Watched, step: int) -> list[ScoredRow]:
    batch = seen.batches[step]
    return [*batch.rows, *(row for update in batch.extra for row in update)]


@pytest.fixture(scope="module", params=KINDS)
def done(
    request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Watched]:
    folder = tmp_path_factory.mktemp("ppo") / "run"
    return request.param, folder, watched_run(folder, model, *KINDS[request.param])


def test_every_token_trains_with_an_advantage_of_its_own(done: tuple[str, Path, Watched]) -> None:
    name, _, seen = done
    for step in range(1, STEPS + 1):
        rows = every_row(seen, step)
        for row in rows:
            assert row.signal
            assert row.credit is not None
            assert row.credit.advantages.shape == (row.trajectory.sampled_count,)
            assert row.advantage == row.credit.advantage
        tokens = np.concatenate([r.credit.advantages for r in rows if r.credit]).astype("f8")
        assert tokens.std(ddof=1) == pytest.approx(1.0, abs=1e-3)
        if name != "one row a task":
            assert tokens.mean() == pytest.approx(0.0, abs=1e-5)
    some = seen.batches[STEPS].rows[0].credit
    assert some is not None
    assert np.unique(some.values).size > 1, "the critic tells states apart"


def test_metrics_and_checkpoint(done: tuple[str, Path, Watched]) -> None:
    name, folder, _ = done
    for line in read_metrics(folder).steps:
        assert undocumented(line.metrics) == []
        assert line.metrics["critic/loss"] > 0
        assert line.metrics["critic/grad_norm"] > 0
        assert line.metrics["critic/explained_variance"] <= 1
        assert ("replay/ratio" in line.metrics) == (name not in ("no replay", "one row a task"))
    files = {path.name for path in max((folder / "checkpoints").iterdir()).iterdir()}
    assert {"critic.safetensors", "critic_optimizer.safetensors"} <= files
    assert ("credits.safetensors" in files) == (name == "as stored")


def test_priorities_are_refreshed_at_every_use_in_one_scale(
    done: tuple[str, Path, Watched],
) -> None:
    """The newest score of a row is that of its last use, from advantages before whitening."""
    name, folder, seen = done
    kind = "td_error" if name == "buffer" else "advantage"
    newest: dict[str, float] = {}
    changed = 0
    with store_of(folder) as store:
        for step in range(1, STEPS + 1):
            found = {score.trajectory: score for score in store.scores(RUN, step)}
            for row in every_row(seen, step):
                assert row.credit is not None
                score = found[row.trajectory.id]
                assert score.priority == pytest.approx(row.credit.priority(kind))
                assert score.advantage == pytest.approx(row.credit.advantage)
                changed += newest.get(row.trajectory.id, score.priority) != score.priority
                newest[row.trajectory.id] = score.priority
        for row_ in store.rows(Query(run=RUN), limit=1000).rows:
            assert row_.priority == pytest.approx(newest[row_.id], rel=1e-6)
    assert (changed > 0) == (name not in ("no replay", "one row a task", "as stored"))


def test_stored_credit_is_that_of_the_fresh_row(done: tuple[str, Path, Watched]) -> None:
    name, _, seen = done
    first: dict[str, np.ndarray] = {}
    same = different = 0
    for step in range(1, STEPS + 1):
        for row in every_row(seen, step):
            assert row.credit is not None
            values = row.credit.values
            if row.pick is None:
                first[row.trajectory.id] = values
            elif np.array_equal(first[row.trajectory.id], values):
                same += 1
            else:
                different += 1
    if name == "as stored":
        assert (same > 10, different) == (True, 0)
    elif name not in ("no replay", "one row a task"):
        assert different > 10


def test_without_gae_there_is_no_critic(model: Path, tmp_path: Path) -> None:
    watched_run(tmp_path / "run", model, "replay.modes=[buffer]")
    files = {p.name for p in max((tmp_path / "run" / "checkpoints").iterdir()).iterdir()}
    assert not any(name.startswith(("critic", "credits")) for name in files)
    for line in read_metrics(tmp_path / "run").steps:
        assert not any(name.startswith("critic/") for name in line.metrics)


# -- how much, where, how often ---------------------------------------------------------------


def test_half_of_a_steps_rows_are_stored_and_stand_among_fresh_ones(
    model: Path, tmp_path: Path
) -> None:
    flags = ("replay.buffer_share=1", "replay.buffer_place=among")
    flags += ("draw.priority=equal",)
    where = ("train.minibatches=2", "train.epochs=2", "pool.max_uses=none", "pool.max_age=none")
    seen = watched_run(tmp_path / "run", model, *BUFFER, *flags, *where)
    for step in range(1, STEPS + 1):
        report = seen.reports[step]
        assert report.optimizer_steps == 4  # no updates of their own
        assert len(seen.uses(step)) == (8 if step > 1 else 0)
        assert all(use.updates == 2 for use in seen.uses(step))  # as often as fresh ones
        assert [len(part) for part in seen.batches[step].extra] == ([4, 4] if step > 1 else [])


def test_a_share_that_is_no_whole_number_of_rows(model: Path, tmp_path: Path) -> None:
    """8 fresh rows and a share of 0.2 make 1.6 stored rows a step: 1, 2, 1, 2, 2 of them."""
    flags = ("replay.buffer_share=0.2",)
    watched_run(tmp_path / "run", model, *BUFFER, *flags)
    drawn = [line.metrics["replay/draws"] for line in read_metrics(tmp_path / "run").steps]
    assert drawn == [0, 1, 2, 1, 2, 2]


def test_epochs_of_a_use_are_counted_and_a_use_is_one(model: Path, tmp_path: Path) -> None:
    flags = ("replay.buffer_epochs=3", "replay.buffer_updates=2", "pool.max_uses=1")
    seen = watched_run(tmp_path / "run", model, *BUFFER, *flags, "pool.max_age=none")
    with store_of(tmp_path / "run") as store:
        uses = store.uses(RUN)
        assert uses
        assert {use.epochs for use in uses} == {3}
        assert max(Counter(use.trajectory for use in uses).values()) == 1
    assert seen.reports[STEPS].optimizer_steps == 1 + 2 * 3


def test_limits_hold_exactly_and_are_reached(model: Path, tmp_path: Path) -> None:
    """A step makes one update on fresh rows and two on stored ones: ages are 1, 4, 7 and so on."""
    flags = ("pool.max_uses=2", "pool.max_age=7", "replay.buffer_rows=4", "draw.priority=equal")
    watched_run(tmp_path / "run", model, *BUFFER, *flags)
    with store_of(tmp_path / "run") as store:
        draws = [draw for step in range(STEPS + 1) for draw in store.draws(RUN, step)]
        assert max(draw.age for draw in draws) == 7
        uses = Counter(use.trajectory for use in store.uses(RUN))
        assert max(uses.values()) == 2
    assert (
        max(
            line.metrics["replay/pool_age_max"] for line in read_metrics(tmp_path / "run").steps[1:]
        )
        > 7
    )  # older rows are kept, and not drawn


@pytest.mark.parametrize(("rows", "step"), [(8, 2), (9, 3), (16, 3), (17, 4), (40, 6)])
def test_replay_starts_when_the_docs_say(model: Path, tmp_path: Path, rows: int, step: int) -> None:
    """Eight rows a step: the first step at whose beginning so many rows are in the pool."""
    watched_run(tmp_path / "run", model, *BUFFER, f"replay.start_rows={rows}")
    assert first_draw(tmp_path / "run") == step


def test_the_pool_never_holds_more_than_its_capacity(model: Path, tmp_path: Path) -> None:
    watched_run(tmp_path / "run", model, *BUFFER, "pool.max_rows=20", "adapt.early_rows=12")
    rows = [line.metrics["replay/pool_rows"] for line in read_metrics(tmp_path / "run").steps]
    assert rows == [0, 8, 12, 12, 20, 20]


# -- rules that move the limits ---------------------------------------------------------------


def test_what_the_rules_did_is_told_and_kept(model: Path, tmp_path: Path) -> None:
    """At this learning rate ratios fly apart: the level falls, step by step, and says why."""
    flags = ("adapt.controller=true", "adapt.uses=kl", "adapt.memory=0", "train.learning_rate=0.05")
    watched_run(tmp_path / "run", model, *BUFFER, *flags, "adapt.target_ess=0.9")
    lines = read_metrics(tmp_path / "run").steps
    levels = [line.metrics["replay/level"] for line in lines]
    assert levels[:3] == [1.0, 1.0, pytest.approx(0.7)]
    assert lines[-1].metrics["replay/max_uses"] <= 2
    assert lines[-1].metrics["replay/max_age"] < 30
    with store_of(tmp_path / "run") as store:
        told = [event for event in store.events(RUN) if event.kind == "replay_adapted"]
    assert any("effective sample size" in str(event.data["what"]) for event in told)
    assert any("use limit 4 -> 2" in str(event.data["what"]) for event in told)
    assert {event.step for event in told} <= set(range(2, STEPS + 1))


def test_rows_that_are_all_too_old_lower_the_level(model: Path, tmp_path: Path) -> None:
    """Every drawn row drifts beyond the bound; in steps in which none is due the level stays."""
    flags = ("replay.modes=[mix]", "correction.drop_above=1.001", "train.learning_rate=0.2")
    run = tmp_path / "run"
    watched_run(run, model, *flags, "environment.tasks=4", "adapt.controller=true")
    lines = [line.metrics for line in read_metrics(run).steps]
    levels = [values["replay/level"] for values in lines]
    drawn = [values["replay/draws"] > 0 for values in lines]
    assert all(values["replay/uses"] == 0 for values in lines)
    fell = [after < before for before, after in itertools.pairwise(levels)]
    assert fell == drawn[:-1]
    assert {True, False} <= set(drawn[1:-1]), "steps with a draw, and steps without"
    assert levels == sorted(levels, reverse=True)
