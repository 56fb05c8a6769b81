"""What a run's configuration opens around it."""

import io
import sys
from pathlib import Path
from types import ModuleType

import pytest

from recollect.errors import TrackerNotReady
from recollect.train.folder import create_run
from recollect.train.running import open_sinks

from .small import make_config


@pytest.mark.parametrize("offline", [True, False])
def test_a_run_may_keep_its_trackers_offline(
    offline: bool, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", ModuleType("trackio"))
    monkeypatch.setenv("TRACKIO_SPACE_ID", "me/space")
    flags = ("telemetry.sinks=[trackio]", f"telemetry.offline={str(offline).lower()}")
    folder = create_run(tmp_path / "r", make_config(model, *flags))
    if offline:
        with pytest.raises(TrackerNotReady, match="TRACKIO_SPACE_ID"):
            open_sinks(folder, io.StringIO())
    else:
        sinks = open_sinks(folder, io.StringIO())
        for sink in sinks.values():
            sink.close()
        assert set(sinks) == {"screen", "trackio"}
        assert (folder.path / "tracker.json").is_file()
