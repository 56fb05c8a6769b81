"""SwanLab (extra `swanlab`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.canonical import Json
from recollect.telemetry.sinks.trackers import TrackerSettings, import_package


class Swanlab:
    """Logs numbers and the redacted configuration; no code, no console, no command line."""

    def __init__(self, settings: TrackerSettings) -> None:
        self._settings = settings
        self._package: Any = import_package("swanlab", "The swanlab tracker", "swanlab")
        self._run: Any = None

    def start(self, run: str, config: dict[str, Json]) -> None:
        """Open the run; without a key this raises instead of asking on the terminal."""
        swanlab = self._package
        folder = self._settings.folder / "swanlab"
        folder.mkdir(parents=True, exist_ok=True)
        kind = swanlab.Settings
        self._run = swanlab.init(
            project=self._settings.project,
            id=self._settings.id,
            name=self._settings.name,
            log_dir=str(folder),
            config=config,
            resume="allow",
            settings=kind(
                mode="offline" if self._settings.offline else "online",
                interactive=False,
                terminal=kind.Terminal(proxy_type="none"),
                probe=kind.Probe(
                    hardware=False, runtime=False, requirements=False, git=False, monitor=False
                ),
            ),
        )

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log one step's numbers."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Close the run."""
        self._run.finish()
