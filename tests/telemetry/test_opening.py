import sys
import threading
from pathlib import Path

import pytest

from recollect.errors import MissingExtra
from recollect.telemetry.opening import open_fanout
from recollect.telemetry.reading import read_metrics

from .samples import Recorder, whole_run


def test_a_run_is_always_written_and_shown_if_asked(tmp_path: Path) -> None:
    screen = Recorder()
    fanout = open_fanout(tmp_path / "run", screen=screen)
    for event in whole_run(tmp_path):
        fanout.emit(event)
    fanout.close()
    assert len(read_metrics(tmp_path / "run").steps) == 3
    assert screen.closed == 1
    open_fanout(tmp_path / "quiet").close()
    assert read_metrics(tmp_path / "quiet").steps == ()


def test_a_missing_tracker_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = type(sys)("tensorboard.summary")
    monkeypatch.setitem(sys.modules, "tensorboard", type(sys)("tensorboard"))
    monkeypatch.setitem(sys.modules, "tensorboard.summary", summary)
    monkeypatch.setitem(sys.modules, "swanlab", None)
    with pytest.raises(MissingExtra, match="swanlab"):
        open_fanout(tmp_path / "run", trackers=("tensorboard", "swanlab"))
    assert not (tmp_path / "run").exists()
    assert "telemetry-TrackerSink" not in {thread.name for thread in threading.enumerate()}
