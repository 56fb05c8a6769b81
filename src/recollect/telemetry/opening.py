"""Putting a run's sinks together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.telemetry.events import Sink
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.sinks.jsonl import FILE_NAME, JsonlSink
from recollect.telemetry.sinks.trackers import TrackerSettings, open_tracker


def open_fanout(
    folder: Path,
    *,
    screen: Sink | None = None,
    trackers: Sequence[str] = (),
    project: str = "recollect",
    offline: bool = False,
) -> Fanout:
    """Open metrics.jsonl in the run's folder, the trackers asked for, and show it on `screen`.

    Raises what can be known before the first step: UnknownTracker, MissingExtra,
    TrackerNotReady, or the OSError of a folder that cannot be written.
    """
    settings = TrackerSettings(folder, project, offline)
    opened: dict[str, Sink] = {}
    try:
        for name in trackers:
            opened[name] = open_tracker(name, settings)
        file = JsonlSink(folder / FILE_NAME)
    except BaseException:
        for sink in opened.values():
            sink.close()
        raise
    shown = {} if screen is None else {"screen": screen}
    return Fanout({FILE_NAME: file, **shown, **opened})
