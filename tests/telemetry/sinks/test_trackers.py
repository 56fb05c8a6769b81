"""The adapters against tiny stand-ins for the trackers' packages."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from recollect.errors import MissingExtra, TrackerNotReady, UnknownTracker
from recollect.telemetry.events import Event, RunStarted, RunStopped
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.sinks.trackers import (
    TRACKERS,
    TrackerSettings,
    TrackerSink,
    open_tracker,
    open_trackers,
)

from ..samples import Recorder, evaluation, step, whole_run

PACKAGES = {"tensorboard": "tensorboard.summary"}
SECRET = "hunter2-hunter2"
LONG = 10.0
ID = "0123456789abcdef01234"


class Calls:
    """Remembers every call that an adapter makes, by name."""

    def __init__(self) -> None:
        self.made: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def of(self, name: str, returns: object = None) -> Any:
        def call(*arguments: Any, **named: Any) -> object:
            self.made.append((name, arguments, named))
            return returns

        return call

    def __getitem__(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(arguments, named) for made, arguments, named in self.made if made == name]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Put stand-ins for all four packages in place."""
    for name in ("WANDB_MODE", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    # What the adapter sets in os.environ goes away with the test.
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    calls = Calls()
    run = SimpleNamespace(
        log=calls.of("log"), finish=calls.of("finish"), define_metric=calls.of("define_metric")
    )
    writer = SimpleNamespace(
        add_scalar=calls.of("add_scalar"), flush=calls.of("flush"), close=calls.of("close")
    )
    settings = SimpleNamespace
    packages: dict[str, dict[str, Any]] = {
        "wandb": {
            "init": calls.of("init", run),
            "login": calls.of("login", True),
            "Settings": settings,
        },
        "swanlab": {
            "init": calls.of("init", run),
            "Settings": type("Settings", (settings,), {"Terminal": settings, "Probe": settings}),
        },
        "trackio": {"init": calls.of("init", run)},
        "tensorboard": {},
        "tensorboard.summary": {
            "Writer": calls.of("Writer", writer),
            "DirectoryOutput": calls.of("DirectoryOutput", "output"),
        },
    }
    for name, content in packages.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def play(name: str, folder: Path, *events: Event, offline: bool = True) -> Recorder:
    """Send events through a tracker behind its queue, as a run does."""
    left = Recorder()
    queued = open_tracker(name, TrackerSettings(folder, ID, "shop", offline))
    queued._grace = LONG
    fanout = Fanout({name: queued, "left": left})
    for event in events:
        fanout.emit(event)
    fanout.close()
    return left


def start(folder: Path) -> RunStarted:
    config = {"lr": 1e-3, "api_key": SECRET, "hub": {"url": f"https://me:{SECRET}@x.example"}}
    return RunStarted("demo-0", folder, 3, config=config)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_whole_run(name: str, calls: Calls, tmp_path: Path) -> None:
    left = play(name, tmp_path, *whole_run(tmp_path))
    assert left.warnings == ["careful"]
    ends = calls["close"] if name == "tensorboard" else calls["finish"]
    assert len(ends) == 1
    assert calls["login"] == []  # offline


@pytest.mark.parametrize("name", TRACKERS)
def test_secrets_stay_at_home(name: str, calls: Calls, tmp_path: Path) -> None:
    play(name, tmp_path, start(tmp_path), step(1))
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert SECRET not in repr(calls.made) + written
    assert "0.001" in repr(calls.made) + written


@pytest.mark.parametrize("name", ["wandb", "swanlab", "trackio"])
def test_numbers_arrive_without_nan(name: str, calls: Calls, tmp_path: Path) -> None:
    play(name, tmp_path, start(tmp_path), step(7, policy__kl=float("nan")), evaluation(7))
    (first, named), (second, _) = calls["log"]
    assert first[0]["train/loss"] == 0.0123
    assert "policy/kl" not in first[0]
    assert first[0]["health/not_finite"] == 1
    assert second[0]["eval/success/airline"] == 0.375
    assert named.get("step", first[0].get("step")) == 7


def test_tensorboard_gets_descriptions_and_a_config_file(calls: Calls, tmp_path: Path) -> None:
    play("tensorboard", tmp_path, start(tmp_path), step(7))
    tags = {arguments[0]: (arguments[1:], named) for arguments, named in calls["add_scalar"]}
    (value, number), named = tags["train/loss"]
    assert (value, number) == (0.0123, 7)
    assert named["description"].startswith("Loss of the step")
    assert calls["DirectoryOutput"] == [((str(tmp_path / "tensorboard"),), {})]
    config = json.loads((tmp_path / "tensorboard" / "config.json").read_text())
    assert config["config"]["lr"] == 1e-3


def test_wandb_is_told_to_keep_quiet_and_to_itself(calls: Calls, tmp_path: Path) -> None:
    play("wandb", tmp_path / "new", start(tmp_path), step(1))
    ((_, named),) = calls["init"]
    assert (named["id"], named["project"], named["mode"]) == (ID, "shop", "offline")
    assert named["resume"] == "allow"
    settings = named["settings"]
    assert (settings.console, settings.silent, settings.x_disable_meta) == ("off", True, True)
    assert calls["define_metric"] == [(("*",), {"step_metric": "step"})]
    assert (tmp_path / "new").is_dir()


def test_wandb_online_asks_nobody(calls: Calls, tmp_path: Path) -> None:
    play("wandb", tmp_path, start(tmp_path), offline=False)
    assert calls["login"] == [((), {"prompt": False, "verify": False})]
    assert calls["init"][0][1]["mode"] == "online"


def test_wandb_without_a_key_is_switched_off(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wandb.login", calls.of("login", False))
    left = play("wandb", tmp_path, start(tmp_path), step(1), offline=False)
    assert calls["init"] == []
    assert len(left.warnings) == 1
    assert "wandb login" in left.warnings[0]


def test_wandb_heeds_its_own_variable(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    play("wandb", tmp_path, start(tmp_path), offline=False)
    assert calls["login"] == []
    assert calls["init"][0][1]["mode"] == "disabled"


def test_swanlab_is_told_to_keep_quiet_and_to_itself(calls: Calls, tmp_path: Path) -> None:
    play("swanlab", tmp_path, start(tmp_path))
    settings = calls["init"][0][1]["settings"]
    assert (settings.mode, settings.interactive) == ("offline", False)
    assert settings.terminal.proxy_type == "none"
    assert settings.probe.runtime is False
    play("swanlab", tmp_path, start(tmp_path), offline=False)
    assert calls["init"][1][1]["settings"].mode == "online"


def begin(name: str, calls: Calls, folder: Path) -> tuple[str, str]:
    """Begin a run in a folder, or go on with it; gives the id and the name the tracker hears."""
    (sink,) = open_trackers([name], folder, "shop", offline=True).values()
    sink._grace = LONG
    sink.emit(start(folder))
    sink.close()
    told = calls["init"][-1][1]
    assert told["resume"] == "allow"
    return told.get("id", told["name"]), told["name"]


@pytest.mark.parametrize("name", ["wandb", "swanlab", "trackio"])
def test_runs_of_one_name_stay_apart(name: str, calls: Calls, tmp_path: Path) -> None:
    """Both arms of a comparison have a seed-0; a resumed run is the one that it was."""
    folders = [tmp_path / arm / "seed-0" for arm in ("twin", "replay")]
    ids = [begin(name, calls, folder)[0] for folder in folders]
    assert len(set(ids)) == 2
    assert [begin(name, calls, folder)[0] for folder in folders] == ids
    moved = folders[0].rename(tmp_path / "elsewhere")
    if name != "trackio":  # which has nothing but the name
        assert begin(name, calls, moved)[0] == ids[0]


def test_names_say_whose_run_it_is(calls: Calls, tmp_path: Path) -> None:
    stage = tmp_path / "domains-1" / "stages" / "00-airline"
    assert begin("wandb", calls, tmp_path / "twin" / "seed-0")[1] == "twin/seed-0"
    assert begin("wandb", calls, stage)[1] == "domains-1/00-airline"
    assert begin("trackio", calls, stage)[1].startswith("domains-1-00-airline-")


def test_where_no_tracker_is_on_nothing_is_written(tmp_path: Path) -> None:
    assert open_trackers([], tmp_path / "run", "shop", offline=True) == {}
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("variable", ["TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"])
def test_offline_trackio_may_not_be_sent_elsewhere(
    variable: str, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "me/space")
    with pytest.raises(TrackerNotReady, match=variable):
        open_tracker("trackio", TrackerSettings(tmp_path, ID, offline=True))
    play("trackio", tmp_path, start(tmp_path), offline=False)
    assert len(calls["init"]) == 1


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_said_at_the_start(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setitem(sys.modules, PACKAGES.get(name, name), None)  # makes the import fail
    with pytest.raises(MissingExtra, match=rf"pip install .*\[{name}\]'"):
        open_tracker(name, TrackerSettings(tmp_path, ID))


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownTracker, match="wandb, swanlab, tensorboard, trackio"):
        open_tracker("mlflow", TrackerSettings(tmp_path, ID))


def test_a_tracker_that_fails_in_the_middle_is_switched_off(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(f"403 for api_key={SECRET}")

    run = SimpleNamespace(log=refuse, finish=calls.of("finish"))
    monkeypatch.setattr("trackio.init", calls.of("init", run))
    left = play("trackio", tmp_path, start(tmp_path), step(1))
    assert left.warnings == [
        "trackio is switched off for the rest of the run: RuntimeError: 403 for api_key=[redacted]"
    ]
    assert len(calls["finish"]) == 1


def test_nothing_is_logged_before_the_start_or_after_the_end(calls: Calls, tmp_path: Path) -> None:
    tracker = SimpleNamespace(
        start=calls.of("start"), log=calls.of("log"), finish=calls.of("finish")
    )
    sink = TrackerSink(tracker)
    sink.emit(step(1))
    sink.close()
    assert calls.made == []
    for event in (start(tmp_path), step(1), RunStopped(1, "Ctrl-C"), step(2)):
        sink.emit(event)
    sink.close()
    assert [name for name, _, _ in calls.made] == ["start", "log", "finish"]
