"""TensorBoard event files (extra `tensorboard`); they never leave the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.canonical import Json, canonical_json
from recollect.telemetry.names import find_metric
from recollect.telemetry.sinks.trackers import TrackerSettings, import_package


class Tensorboard:
    """Writes `tensorboard/` in the run's folder. A resumed run adds a file beside the first."""

    def __init__(self, settings: TrackerSettings) -> None:
        self._folder = settings.folder / "tensorboard"
        self._package: Any = import_package(
            "tensorboard.summary", "The tensorboard tracker", "tensorboard"
        )
        self._writer: Any = None

    def start(self, run: str, config: dict[str, Json]) -> None:
        """Open an event file; the configuration goes beside it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        text = canonical_json({"run": run, "config": config})
        (self._folder / "config.json").write_text(text + "\n", encoding="utf-8")
        self._writer = self._package.Writer(self._package.DirectoryOutput(str(self._folder)))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log one step's numbers, each with its description."""
        for name, value in metrics.items():
            metric = find_metric(name)
            text = metric.text if metric else None
            self._writer.add_scalar(name, value, step, description=text)
        self._writer.flush()

    def finish(self) -> None:
        """Close the file."""
        self._writer.close()
