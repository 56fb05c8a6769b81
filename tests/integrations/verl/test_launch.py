"""Starting a run under verl, up to where verl begins."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import assert_refused, invoke
from recollect.errors import BadFile, ClusterLost, DriverFailed, TrainingDiverged
from recollect.errors.extras import install_command
from recollect.integrations.verl import launch as launching
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.engine import Driver
from recollect.integrations.verl.workplace import Ending, Screen, Workplace, ending_of
from recollect.train.folder import RunFolder, create_run
from train.small import make_config, settings

CPU = Cluster(cpu=True)
USAGE = "RAY_USAGE_STATS_ENABLED"


@pytest.fixture
def run(model: Path, tmp_path: Path) -> RunFolder:
    return create_run(tmp_path / "run", make_config(model))


def pretend(monkeypatch: pytest.MonkeyPatch, ending: Ending | None) -> list[Any]:
    """Put a driver in verl's place that ends at once, and says so or not."""
    seen: list[Any] = []

    def end(told: Any, variables: Any, place: Workplace) -> None:
        seen.append((told, variables))
        if ending is not None:
            place.end(ending)

    monkeypatch.setattr(launching, "_run", end)
    names = ("RECOLLECT_RUN", "VERL_USE_EXTERNAL_MODULES", "RAY_DEDUP_LOGS", "VERL_PLATFORM")
    for name in (*names, "TQ_NUM_THREADS"):
        monkeypatch.setenv(name, "")
    # Set and taken back: what is launched may set it, and the test leaves no trace of that.
    monkeypatch.setenv(USAGE, "")
    monkeypatch.delenv(USAGE)
    return seen


def test_what_every_process_is_told(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = pretend(monkeypatch, Ending())
    assert launching.launch(run, CPU) is None
    ((told, variables),) = seen
    assert variables["RECOLLECT_RUN"] == str(run.path.resolve())
    modules = variables["VERL_USE_EXTERNAL_MODULES"].split(",")
    assert modules[0].endswith("cpu.device"), "verl looks for its platform first of all"
    assert modules[-1] == "recollect.integrations.verl.plugin"
    assert os.environ["VERL_PLATFORM"] == "cpu"
    written = json.loads((run.path / "verl" / "settings.json").read_text())
    assert [key for key, _, _ in written] == [each.key for each in told]
    assert "RecollectAgentLoop" in (run.path / "verl" / "agent.yaml").read_text()
    assert Workplace(run.path).cluster() == CPU


def test_ray_reports_its_use_to_nobody_unasked(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, Ending())
    launching.launch(run, CPU)
    assert os.environ[USAGE] == "0"
    monkeypatch.setenv(USAGE, "1")
    launching.launch(run, CPU)
    assert os.environ[USAGE] == "1"


def test_how_the_driver_ended_is_said_here(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, Ending(signal=15))
    assert launching.launch(run, CPU) == 15
    pretend(monkeypatch, ending_of(TrainingDiverged(3, 3, "bad")))
    with pytest.raises(DriverFailed, match="not finite") as caught:
        launching.launch(run, CPU)
    assert caught.value.exit_code == 3
    pretend(monkeypatch, None)
    with pytest.raises(ClusterLost, match="without a word"):
        launching.launch(run, CPU)


@pytest.mark.parametrize("ending", [None, ending_of(ClusterLost("a node is gone"))])
def test_a_lost_cluster_is_told_with_the_runs_own_name(
    ending: Ending | None, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, ending)
    with pytest.raises((ClusterLost, DriverFailed)) as caught:
        launching.launch(run, CPU)
    assert caught.value.hint.endswith(f"recollect resume {run.path}")


def test_an_interrupt_lets_the_driver_finish_its_step(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Workplace(run.path)
    heard: list[int | None] = []

    def interrupted(told: Any, variables: Any, workplace: Workplace) -> None:
        driver = Driver(workplace.stop)
        heard.append(driver.signal())
        os.kill(os.getpid(), signal.SIGINT)
        heard.append(driver.signal())
        workplace.end(Ending(signal=driver.signal()))
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    pretend(monkeypatch, None)
    monkeypatch.setattr(launching, "_run", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert launching.launch(run, CPU) == signal.SIGINT
    assert heard == [None, signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before
    # The next start is not stopped by what stopped this one.
    pretend(monkeypatch, Ending())
    launching.launch(run, CPU)
    assert not place.stop.exists()


def test_a_dry_run_shows_what_verl_is_told(model: Path, here: Path) -> None:
    words = ["train", "small.yaml", "--engine", "verl", "--gpus", "2", "--nodes", "3"]
    refused = invoke(*words, "--dry-run", *settings(model))
    assert refused.exit_code == 2
    assert "--ray auto" in refused.stderr
    words += ["--ray", "auto"]
    result = invoke(*words, "--dry-run", *settings(model))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "verl, on 3 x 2 workers" in lines
    (rate,) = [line.split() for line in lines if ".actor.optim.lr " in line]
    assert rate[1:] == ["0.01", "train.learning_rate"]
    assert not (here / "runs").exists()
    result = invoke(*words, "--dry-run", "--json", *settings(model))
    assert json.loads(result.stdout)["trainer.nnodes"] == 3


@pytest.mark.parametrize("choice", ["--progress", "--no-progress"])
def test_a_bar_is_not_verls_to_show_or_hide(model: Path, here: Path, choice: str) -> None:
    words = ["train", "small.yaml", "--engine", "verl", choice, "--dry-run"]
    result = invoke(*words, *settings(model))
    assert result.exit_code == 2
    assert "not for runs under verl" in result.stderr


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("cluster.json", Workplace.cluster),
        ("screen.json", Workplace.screen),
        ("ending.json", Workplace.ending),
    ],
)
def test_a_torn_file_is_named(
    run: RunFolder, name: str, read: Callable[[Workplace], object]
) -> None:
    place = Workplace(run.path)
    place.prepare(CPU, [])
    place.end(Ending(signal=15))
    file = place.folder / name
    file.write_bytes(file.read_bytes()[:7])
    with pytest.raises(BadFile, match=name) as caught:
        read(place)
    assert caught.value.hint


def test_files_are_replaced_as_a_whole_and_equal_ones_left_alone(run: RunFolder) -> None:
    place = Workplace(run.path)
    place.prepare(CPU, [])
    names = ("cluster.json", "screen.json", "settings.json", "agent.yaml")
    before = {name: (place.folder / name).stat() for name in names}
    place.prepare(CPU, [], Screen(verbose=True))
    after = {name: (place.folder / name).stat() for name in names}
    # Another file under the name, and not other bytes in the same one.
    changed = {name for name in names if before[name].st_ino != after[name].st_ino}
    assert changed == {"screen.json"}
    assert {n for n in names if before[n].st_mtime_ns != after[n].st_mtime_ns} == changed
    assert not list(place.folder.glob(".*.part"))


def test_what_verl_cannot_keep_is_refused_before_anything_is_made(model: Path, here: Path) -> None:
    flags = settings(model, "rollout.top_p=0.9")
    for words in (["--dry-run"], []):
        result = invoke("train", "small.yaml", "--engine", "verl", *words, *flags)
        assert_refused(result, "rollout.top_p = 0.9", "under verl", "Set rollout.top_p=1")
    assert not (here / "runs").exists()


def test_without_verl_it_says_what_to_install(
    model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "find_spec", lambda name: None)
    result = invoke("train", "small.yaml", "--engine", "verl", *settings(model))
    assert_refused(result, install_command("verl"))
    assert not (here / "runs").exists()


def test_machines_are_for_verl_only(model: Path, here: Path) -> None:
    result = invoke("train", "small.yaml", "--gpus", "2", *settings(model))
    assert result.exit_code != 0
    assert "--engine verl" in result.output


def test_resume_knows_which_engine_a_run_has(
    run: RunFolder, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, Ending())
    monkeypatch.setattr(launching, "require_verl", lambda: None)
    launching.launch(run, Cluster(1, 2, cpu=True))
    seen = pretend(monkeypatch, Ending(signal=2))
    result = invoke("resume", run.path, "--verbose", "--log-interval", "3")
    assert result.exit_code == 130, result.output
    ((told, _),) = seen
    assert {"trainer.n_gpus_per_node": 2}.items() <= {e.key: e.value for e in told}.items()
    assert Workplace(run.path).screen() == Screen(verbose=True, log_interval=3)
    assert str(Workplace(run.path).log) in result.output
