"""Weights & Biases (extra `wandb`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from recollect.canonical import Json
from recollect.errors import TrackerNotReady
from recollect.telemetry.sinks.trackers import TrackerSettings, import_package


class Wandb:
    """Logs numbers and the redacted configuration; no code, no console, no command line.

    The step is a metric of its own and every other metric's axis, because wandb's own counter
    cannot go back and a resumed run's must.
    """

    def __init__(self, settings: TrackerSettings) -> None:
        self._settings = settings
        self._mode = "offline" if settings.offline else os.environ.get("WANDB_MODE", "online")
        if self._mode != "online":
            # Otherwise wandb reports its own crashes home, whatever the mode.
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self._package: Any = import_package("wandb", "The wandb tracker", "wandb")
        self._run: Any = None

    def start(self, run: str, config: dict[str, Json]) -> None:
        """Open the run; without a key this raises instead of asking on the terminal."""
        wandb = self._package
        if self._mode == "online" and not wandb.login(prompt=False, verify=False):
            raise TrackerNotReady(
                "wandb",
                "there is no key on this machine",
                "Run: wandb login, or set telemetry.offline=true.",
            )
        folder = self._settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self._settings.project,
            id=self._settings.id,
            name=self._settings.name,
            dir=str(folder),
            mode=self._mode,
            config=config,
            resume="allow",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_meta=True,
                x_disable_stats=True,
            ),
        )
        self._run.define_metric("*", step_metric="step")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log one step's numbers."""
        self._run.log({**metrics, "step": step})

    def finish(self) -> None:
        """Close the run."""
        self._run.finish()
