"""The picture of a comparison: success over generated rollouts, and what replay did meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import BadFile, MissingExtra
from recollect.telemetry.plots import Panel, plot_run

if TYPE_CHECKING:
    from recollect.compare.study import Study

PANELS = (
    Panel("eval/success", "Held-out success", "attempts that succeed (%)"),
    Panel("reward/success", "Success in training", "fresh rows that succeed (%)"),
    Panel("reward/dead_groups", "Groups without signal", "groups (%)"),
)


def write_picture(study: Study) -> Path | None:
    """Draw the arms into compare.png; None without the extra `plot`, or with nothing to draw."""
    folders = {
        result.arm.name: [study.folder / result.arm.name / f"seed-{seed}" for seed in study.seeds]
        for result in study.arms
    }
    try:
        files = plot_run(folders, study.folder / "compare.png", x="rollouts", panels=PANELS)
    except (MissingExtra, BadFile):
        return None
    return files[0]
