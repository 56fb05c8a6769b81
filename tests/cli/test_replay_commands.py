"""`pool why`, `replay explain` and `replay simulate`, on the store of a run that replayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.ledger import Cursor, Draw, Score, Use
from recollect.store import open_reader, open_store
from recollect.store.records import Batch
from recollect.types import RunId

from .conftest import Filled, assert_refused, invoke

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of the tiny model with every mode of replay."""
    from recollect.config import load_config
    from recollect.train.folder import create_run
    from recollect.train.loop import train
    from recollect.train.session import open_session

    small = ["run.steps=4", "rollout.tasks_per_step=3", "rollout.rows_per_task=3", "eval.every=0"]
    replay = ["replay.modes=[mix,repair,buffer]", "environment.tasks=6", "environment.levels=[1]"]
    config = load_config("demo", [*small, *replay]).config
    folder = create_run(tmp_path_factory.mktemp("runs") / "small", config)
    with open_session(folder, {}) as session:
        train(session)
    return folder.path


def test_explain_shows_every_draw_of_a_step(run: Path) -> None:
    with open_reader(run / "store.db") as store:
        draws = store.draws(run=RunId("small"), step=4)
        uses = store.uses(run=RunId("small"), step=4)
    assert draws
    shown = invoke("replay", "explain", str(run), "4")
    assert shown.exit_code == 0
    assert f"{len(draws)} rows drawn, {len(uses)} used" in shown.output
    assert all(draw.trajectory[:8] in shown.output for draw in draws)
    assert all(draw.reason in shown.output for draw in draws)
    found = json.loads(invoke("replay", "explain", str(run), "4", "--json").output)
    assert [entry["draw"]["slot"] for entry in found] == [draw.slot for draw in draws]
    assert sum(entry["use"] is not None for entry in found) == len(uses)


@pytest.mark.parametrize("command", [("explain", "nosuch", "3"), ("simulate", "demo", "nosuch")])
def test_a_store_that_is_an_argument_is_asked_for_as_one(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = invoke("replay", *command)
    assert_refused(refused, "There is no store at nosuch", "recollect runs ls")
    assert "--store" not in refused.stderr


def test_explain_of_rows_that_were_removed_since(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert invoke("pool", "copy", str(run), str(copy)).exit_code == 0
    before = invoke("replay", "explain", str(copy), "4", "--json").stdout
    pruned = invoke("pool", "prune", "--store", str(copy), "--max-rows", 0, "--yes")
    assert pruned.exit_code == 0, pruned.output
    shown = invoke("replay", "explain", str(copy), "4")
    assert shown.exit_code == 0, shown.output
    assert all(e["draw"]["trajectory"][:8] in shown.output for e in json.loads(before))
    assert invoke("replay", "explain", str(copy), "4", "--json").stdout == before


def test_explain_of_a_step_without_draws(run: Path) -> None:
    shown = invoke("replay", "explain", str(run), "1")
    assert shown.exit_code == 0
    assert "drew nothing" in shown.output
    assert invoke("replay", "explain", str(run), "1", "--run", "other").exit_code == 2


def test_why_tells_every_use(run: Path) -> None:
    with open_reader(run / "store.db") as store:
        uses = store.uses(run=RunId("small"))
        id_ = uses[0].trajectory
        mine = [use for use in uses if use.trajectory == id_]
        draws = store.draws(trajectory=id_)
    shown = invoke("pool", "why", id_[:12], "--store", str(run))
    assert shown.exit_code == 0
    times = "1 time" if len(draws) == 1 else f"{len(draws)} times"
    assert f"Drawn {times}" in shown.output
    assert all(draw.reason in shown.output for draw in draws)
    found = json.loads(invoke("pool", "why", id_, "--store", str(run), "--json").output)
    assert len(found["uses"]) == len(mine)


def test_why_tells_the_advantage_that_its_own_run_found_first(filled: Filled) -> None:
    """Another run that replays the row begins with step 1 again."""
    row = filled.items[11]
    with open_store(filled.path) as store:
        own = Score(row.run, row.step, row.id, 1.5, 1.0)
        store.commit(Batch(scores=[own, Score(RunId("beta"), 1, row.id, -0.5, 0.5)]))
    text = invoke("pool", "why", row.id, "--store", filled.path).stdout
    assert "Its advantage then was +1.500; it is -0.500 now." in text


def test_why_names_the_runs_where_another_one_drew_the_row(filled: Filled) -> None:
    row = filled.items[11]
    with open_store(filled.path) as store:
        own = Draw(row.run, row.step + 1, 0, row.id, row.group, 1, 0.5, "buffer")
        store.commit(Batch(draws=[own]))
        alone = invoke("pool", "why", row.id, "--store", filled.path).stdout
        store.commit(Batch(draws=[replace(own, run=RunId("beta"), step=1)]))
    assert "run" not in alone.splitlines()[-2].split()
    titles, *lines = invoke("pool", "why", row.id, "--store", filled.path).stdout.splitlines()[-3:]
    assert titles.split()[:2] == ["run", "step"]
    assert {tuple(line.split()[:2]) for line in lines} == {
        (row.run, str(row.step + 1)),
        ("beta", "1"),
    }


def test_a_step_that_never_was_did_not_draw_nothing(filled: Filled) -> None:
    run = filled.items[11].run
    with open_store(filled.path) as store:
        store.commit(Batch(cursors=[Cursor(run, 20, policy_version=20)]))
    command = ("replay", "explain", filled.path, 20, "--run", run)
    assert "Step 20 of" in invoke(*command).stdout
    command = ("replay", "explain", filled.path, 21, "--run", run)
    assert_refused(invoke(*command), "there is no step 21, its last one is 20")


def test_both_weights_of_a_draw_are_shown(filled: Filled) -> None:
    """The priority weight of the draw, and the policy ratios of what it trained on."""
    row = filled.items[11]
    step = row.step + 1
    with open_store(filled.path) as store:
        draw = Draw(row.run, step, 0, row.id, row.group, 1, 0.5, "buffer", weight=0.312)
        use = Use(row.run, step, 0, row.id, ratio_p50=1.044, ratio_p99=1.755, ess=0.866)
        store.commit(Batch(draws=[draw], uses=[use]))
    explain = ("replay", "explain", str(filled.path), str(step), "--run", row.run)
    for command in (explain, ("pool", "why", row.id, "--store", str(filled.path))):
        titles, shown = (
            next(line for line in invoke(*command).stdout.splitlines() if word in line).split()
            for word in ("weight", "0.312")
        )
        found = json.loads(invoke(*command, "--json").stdout)
        told = found[0] if command is explain else {k[:-1]: found[k][0] for k in ("draws", "uses")}
        assert {"weight", "ESS", "p99"} <= set(titles)
        assert {"0.312", "1.755", "0.866"} <= set(shown)
        assert told["draw"]["weight"] == 0.312
        assert (told["use"]["ratio_p99"], told["use"]["ess"]) == (1.755, 0.866)


def test_simulate_keeps_the_limits_and_writes_nothing(run: Path) -> None:
    before = (run / "store.db").read_bytes()
    flags = ["replay.modes=[mix,buffer]", "pool.max_uses=1", "rollout.tasks_per_step=3"]
    args = ["replay", "simulate", "demo", str(run), *flags, "--steps", "5"]
    shown = invoke(*args)
    assert shown.exit_code == 0
    assert "Coverage:" in shown.output
    found = json.loads(invoke(*args, "--json").output)
    assert found["draws"] > 0
    assert set(found["uses"]) == {"1"}, "a row was drawn more often than it may be used"
    assert len(found["steps"]) == 5
    assert (run / "store.db").read_bytes() == before


def test_simulate_does_not_wait_for_successes_that_nobody_can_have(run: Path) -> None:
    args = ["replay", "simulate", "demo", str(run), "replay.modes=[buffer]", "--json"]
    plain, waiting = invoke(*args), invoke(*args, "replay.start_success=0.35")
    assert json.loads(plain.stdout)["draws"] > 0
    assert json.loads(waiting.stdout) == json.loads(plain.stdout)


def test_simulate_says_when_nothing_would_be_drawn(run: Path) -> None:
    shown = invoke("replay", "simulate", "demo", str(run), "replay.modes=[]", "--json")
    assert json.loads(shown.stdout)["draws"] == 0
