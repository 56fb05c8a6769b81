"""Trackio (extra `trackio`): a local database, looked at with `trackio show`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from recollect.canonical import Json
from recollect.errors import TrackerNotReady
from recollect.telemetry.sinks.trackers import TrackerSettings, import_package

# Set by people who keep their runs elsewhere; either makes trackio open a connection.
_REMOTE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


class Trackio:
    """Logs numbers and the redacted configuration. Where trackio keeps them is its own matter."""

    def __init__(self, settings: TrackerSettings) -> None:
        self._settings = settings
        remote = [name for name in _REMOTE if os.environ.get(name)]
        if settings.offline and remote:
            raise TrackerNotReady(
                "trackio", f"the run is offline and {remote[0]} sends it elsewhere", "Unset it."
            )
        self._package: Any = import_package("trackio", "The trackio tracker", "trackio")
        self._run: Any = None

    def start(self, run: str, config: dict[str, Json]) -> None:
        """Open the run. Its name is all that trackio knows it by, so the id is in it."""
        self._run = self._package.init(
            project=self._settings.project,
            name=f"{self._settings.name.replace('/', '-')}-{self._settings.id[:8]}",
            config=config,
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log one step's numbers."""
        self._run.log(dict(metrics), step=step)

    def finish(self) -> None:
        """Close the run."""
        self._run.finish()
