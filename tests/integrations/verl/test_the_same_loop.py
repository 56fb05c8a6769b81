"""One loop on two engines: the same rows are drawn by the same probabilities, and train alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.integrations.verl.engine import ClusterEngine
from recollect.integrations.verl.journal import FILE_NAME
from recollect.ledger import Draw, Use
from recollect.proof.logical import all_rows
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.events import Event, StepFinished
from recollect.telemetry.reading import read_metrics
from recollect.train.folder import create_run
from recollect.train.loop import train
from recollect.train.session import open_session
from recollect.types import RunId
from train.replays import EVERYTHING
from train.small import Recorder, make_config, run_to_end

from .evidence import check_run, lines
from .machines import LocalMachines, TableMachines

RUN = RunId("run")
STEPS = 5
SHORT = (f"run.steps={STEPS}", "environment.tasks=4", "eval.every=0", "checkpoint.every=0")
MODES = {
    "all": EVERYTHING,
    "two epochs of two minibatches": (*EVERYTHING, "train.epochs=2", "train.minibatches=2"),
    "by rows": (*EVERYTHING, "algo.aggregation=seq-mean-token-mean", "correction.kind=shape"),
    "recomputed": (*EVERYTHING, "correction.old_logprobs=recomputed", "draw.choice=likeliest"),
    "left out": (*EVERYTHING, "correction.drop_above=1.05", "correction.level=geometric"),
    "warming up": (*EVERYTHING, "train.warmup_steps=3", "train.schedule=cosine"),
}


def on_cluster(
    folder: Path, model: Path, *flags: str, workers: int = 1, kind: Any = LocalMachines
) -> LocalMachines:
    config = make_config(model, *SHORT, *flags)
    run = create_run(folder, config)
    machines: LocalMachines = kind(config, workers)
    with open_session(run, {}, engine=ClusterEngine(machines)) as session:
        assert train(session).step == config.run.steps
    return machines


def draws_of(folder: Path) -> list[Draw]:
    with open_reader(folder / "store.db") as store:
        assert list(store.verify()) == []
        return [draw for step in range(1, STEPS + 1) for draw in store.draws(RUN, step)]


def uses_of(folder: Path) -> list[Use]:
    with open_reader(folder / "store.db") as store:
        return store.uses(RUN)


@pytest.mark.parametrize("mode", MODES)
def test_same_seeds_same_draws_same_figures(mode: str, model: Path, tmp_path: Path) -> None:
    flags = MODES[mode]
    here, there = tmp_path / "a" / "run", tmp_path / "b" / "run"
    run_to_end(here, make_config(model, *SHORT, *flags))
    on_cluster(there, model, *flags, workers=2)
    mine = draws_of(here)
    assert mine, "nothing was drawn, nothing is shown"
    # Rows, groups, ages, probabilities, weights, reasons: exactly.
    assert draws_of(there) == mine
    pairs = list(zip(uses_of(here), uses_of(there), strict=True))
    assert pairs
    for one, other in pairs:
        assert (one.step, one.slot, one.trajectory, one.epochs) == (
            other.step,
            other.slot,
            other.trajectory,
            other.epochs,
        )
        for name in ("ratio_mean", "ratio_p50", "ratio_p99", "ess", "clip_share", "loss_share"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), abs=2e-4), name
    for one, other in zip(read_metrics(here).steps, read_metrics(there).steps, strict=True):
        for name in ("train/loss", "train/grad_norm", "train/learning_rate", "replay/loss"):
            if name in one.metrics:
                close = pytest.approx(one.metrics[name], abs=2e-4, rel=1e-3)
                assert other.metrics[name] == close, name


def test_what_is_in_the_ledger_is_what_trained(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    machines = on_cluster(folder, model, *EVERYTHING, workers=2)
    stored = sorted(row.id for rows in machines.trained for row in rows if (row.codes > 0).any())
    told = sorted(use.trajectory for use in uses_of(folder) for _ in range(use.epochs))
    assert stored == told
    check_run(folder, RUN, STEPS, servers=0)
    with open_reader(folder / "store.db") as store:
        versions = {row.id: row for row in store.get(list({*told}))}
        cursor = store.cursor(RUN)
        rows = store.count(Query(run=RUN))
    assert cursor is not None
    assert cursor.policy_version == len(machines.trained)
    assert rows == STEPS * 8 - sum("mix" in draw.reason for draw in draws_of(folder))
    for draw in draws_of(folder):
        assert versions[draw.trajectory].step < draw.step or draw.trajectory not in told
        recorded = versions.get(draw.trajectory)
        assert recorded is None or recorded.logprobs is not None


def test_the_driver_expects_the_loss_that_workers_compute(model: Path, tmp_path: Path) -> None:
    config = make_config(model, *SHORT, *EVERYTHING)
    machines = LocalMachines(config, 2)
    counts = [0]

    def count(event: Event) -> None:
        if isinstance(event, StepFinished):
            own = machines.losses[counts[-1] :]
            counts.append(len(machines.losses))
            expected = sum(own) / len(own) if own else 0.0
            assert event.metrics["train/loss"] == pytest.approx(expected, abs=1e-5)

    run = create_run(tmp_path / "run", config)
    with open_session(run, {"test": Recorder(count)}, engine=ClusterEngine(machines)) as session:
        train(session)
    assert len(counts) == STEPS + 1
    names = {name for told in machines.metrics for name in told}
    assert {"actor/on_policy/ratio_std", "actor/off_policy/ratio_std"} <= names
    assert any(told["actor/off_policy/ratio_std"] > 0 for told in machines.metrics)


def test_killed_and_resumed_as_if_nothing_had_happened(model: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "a" / "run", tmp_path / "b" / "run"
    flags = (*EVERYTHING, "checkpoint.every=2")
    on_cluster(whole, model, *flags)
    config = make_config(model, *SHORT, *flags)
    machines = LocalMachines(config)
    run = create_run(cut, config)
    machines_train = machines.train

    def die(*given: Any) -> Any:
        if len(machines.trained) == 9:
            raise KeyboardInterrupt("killed")
        return machines_train(*given)

    machines.train = die  # type: ignore[method-assign]
    with (
        pytest.raises(KeyboardInterrupt),
        open_session(run, {}, engine=ClusterEngine(machines)) as session,
    ):
        train(session)
    again = LocalMachines(config)
    with open_session(run, {}, engine=ClusterEngine(again)) as session:
        assert 0 < session.done < STEPS
        assert train(session).step == STEPS
    assert draws_of(cut) == draws_of(whole)
    assert uses_of(cut) == uses_of(whole)
    # What was trained after the checkpoint is written down once, as the ledger has it.
    check_run(cut, RUN, STEPS, servers=0)
    assert lines(cut / "verl" / FILE_NAME) == lines(whole / "verl" / FILE_NAME)


def test_a_run_played_at_the_table_has_no_entropies(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    on_cluster(folder, model, *EVERYTHING, "run.steps=3", kind=TableMachines)
    with open_reader(folder / "store.db") as store:
        rows = store.get([row.id for row in all_rows(store, Query(run=RUN))])
    assert rows
    assert all(row.entropies is None and row.logprobs is not None for row in rows)
    assert {row.policy_version for row in rows} > {0}
    steps = read_metrics(folder).steps
    # Log-probs that were recorded are those of the policy that trains.
    assert all(step.metrics["policy/logprob_diff"] < 1e-5 for step in steps)
