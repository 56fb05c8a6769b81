"""`recollect doctor`, through the real command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from doctor.runs import PPO, WORLDS, Clinic
from recollect.errors import NotTried, PromiseBroken
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.workplace import Workplace
from recollect.proof import promises
from recollect.proof.promises import Promise
from train.small import make_model, settings

from .conftest import assert_refused, invoke


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    root = tmp_path_factory.mktemp("clinic")
    return Clinic(root, make_model(root / "model"))


def test_a_run_with_a_finding(clinic: Clinic) -> None:
    run = clinic["never"].path
    before = sorted(path.name for path in run.iterdir())
    result = invoke("doctor", run)
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("never: step 4 of 4, 32 rollouts, replay ratio ")
    assert lines[0].endswith(" (asked for 3.00).")
    assert "66 % generation, 33 % training" in lines[1]
    assert any(line.startswith("1. Replay never began in 4 steps") for line in lines)
    assert any("try replay.start_rows=16 (now 24)" in line for line in lines)
    assert f"recollect train {run / 'config.yaml'} run.name=NAME replay.start_rows=16" in lines[-1]
    assert "Not judged: whether the reward grows" in result.stderr
    assert sorted(path.name for path in run.iterdir()) == before


def test_the_next_command_trains_as_the_run_was_trained(clinic: Clinic, tmp_path: Path) -> None:
    run = copytree(clinic["never"].path, tmp_path / "never")
    Workplace(run).prepare(Cluster(2, 4), [])
    assert "run.name=NAME --engine verl --nodes 2 --gpus 4 replay." in invoke("doctor", run).stdout
    # A stage is trained by its continual run only, with the method.
    (run / "stage.json").write_text("{}")
    last = invoke("doctor", run).stdout.splitlines()[-2:]
    assert "give the whole continual run these settings" in last[0]
    assert last[1].split() == ["replay.start_rows=16"]


def test_the_same_as_json(clinic: Clinic) -> None:
    result = invoke("doctor", clinic["never"].path, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["step"], found["asked_ratio"]) == (4, 3.0)
    assert 0 < found["ratio"] <= 1
    first = found["findings"][0]
    assert first["name"] == "replay_never_began"
    assert first["changes"][0]["flag"] == "replay.start_rows=16"
    assert first["evidence"][0] == {
        "what": "replay/draws, in all", "value": 0.0, "first": 1, "last": 4
    }  # fmt: skip


@pytest.mark.parametrize(("rate", "codes"), [("0", (1,)), ("0.005", (0, 1))])
def test_a_critic_that_never_learns_and_one_that_does(
    clinic: Clinic, tmp_path: Path, rate: str, codes: tuple[int, ...]
) -> None:
    """A run of PPO through the command line; what else is wrong with it is not looked at."""
    world = f"{WORLDS}:EarlyLetters"
    flags = settings(clinic.model, *PPO, "run.steps=9", "run.name=run", world=world)
    config = tmp_path / "small.yaml"
    config.write_text(f"critic:\n  learning_rate: {rate}\n")
    result = invoke("train", config, *flags, f"run.folder={tmp_path}")
    assert result.exit_code == 0, result.output
    result = invoke("doctor", tmp_path / "run")
    assert result.exit_code in codes, result.output
    assert ("The critic has hardly moved from 0" in result.stdout) == (rate == "0")
    assert ("try critic.learning_rate=0.001 (now 0" in result.stdout) == (rate == "0")
    assert "critic" not in result.stderr


def test_a_run_without_findings(clinic: Clinic) -> None:
    result = invoke("doctor", clinic["healthy"].path)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "Nothing wrong was found."


def test_what_is_no_run(tmp_path: Path) -> None:
    assert_refused(invoke("doctor", tmp_path / "nothing"), "nothing", "recollect runs ls")
    result = invoke("doctor", tmp_path, "--prove")
    assert result.exit_code == 2
    assert "--prove" in result.stderr
    result = invoke("doctor", tmp_path, "--folder", tmp_path)
    assert result.exit_code == 2
    assert "--folder is for this installation" in result.stderr


def test_the_installation(tmp_path: Path) -> None:
    result = invoke("doctor", "--folder", tmp_path)
    names = [line.split("  ")[0].strip() for line in result.stdout.splitlines()]
    assert {"python", "extra train", "sqlite", "free space", "flush"} <= set(names)
    checks = json.loads(invoke("doctor", "--folder", tmp_path, "--json").stdout)
    assert {check["name"]: check["ok"] for check in checks}["python"] is True
    lost = invoke("doctor", "--folder", tmp_path / "lost")
    assert lost.exit_code == 1
    assert "flush: Choose a folder that can be written" in lost.stdout


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def cannot(folder: Path) -> str:
        raise NotTried("no kill -9 here")

    quick = [p for p in promises.PROMISES if p.name in ("full", "draws")]
    monkeypatch.setattr(promises, "PROMISES", (*quick, Promise("x", "Nothing is lost", cannot)))
    return iter(())


@pytest.mark.usefixtures("few")
def test_promises_that_hold(tmp_path: Path) -> None:
    result = invoke("doctor", "--prove", "--folder", tmp_path)
    assert result.exit_code == 0, result.output
    assert "holds      A store without room loses nothing" in result.stdout
    assert "5 stores stopped by a limit" in result.stdout
    assert "not tried  Nothing is lost" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_promise_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path) -> str:
        raise PromiseBroken("of 9 rows 2 are lost")

    monkeypatch.setattr(promises, "PROMISES", (Promise("x", "Nothing is lost", broken),))
    result = invoke("doctor", "--prove", "--folder", tmp_path, "--json")
    assert result.exit_code == 1
    (verdict,) = json.loads(result.stdout)
    assert (verdict["holds"], verdict["evidence"]) == (False, "of 9 rows 2 are lost")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_promises_hold_here(tmp_path: Path) -> None:
    result = invoke("doctor", "--prove", "--folder", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert [v["holds"] for v in json.loads(result.stdout)] == [True] * len(promises.PROMISES)
