"""compare.json: everything about a study that a program or a later reader may want."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from recollect import __version__
from recollect.canonical import Json
from recollect.compare.arms import differences
from recollect.compare.measures import Point, Reach
from recollect.compare.statistics import CONFIDENCE, RESAMPLES
from recollect.compare.study import ArmResult, Study
from recollect.compare.verdict import verdict
from recollect.redaction import redact

FILE_NAME = "compare.json"
_PACKAGES = ("torch", "transformers", "numpy")


def study_document(study: Study) -> dict[str, Json]:
    """Describe a study as JSON. null: undefined or not known; "infinite": never reached."""
    return {
        "verdict": verdict(study),
        "command": study.command,
        "source": study.source,
        "settings": [redact(text) for text in study.settings],
        "seeds": list(study.seeds),
        "tuning_seeds": list(study.tuning_seeds),
        "target": study.target,
        "jobs": study.jobs,
        "span": _plain(study.span),
        "interval": {
            "kind": "percentile bootstrap over seeds, pairs kept; expanded for means",
            "confidence": CONFIDENCE,
            "resamples": RESAMPLES,
        },
        "versions": versions(),
        "arms": [_arm(result) for result in study.arms],
        "comparisons": [_plain(found) for found in study.comparisons],
        "differences": _differences(study),
    }


def write_document(study: Study) -> Path:
    """Write compare.json into the study's folder."""
    path = study.folder / FILE_NAME
    text = json.dumps(study_document(study), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def versions() -> dict[str, Json]:
    """Name what the figures depend on."""
    found: dict[str, Json] = {
        "recollect": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _arm(result: ArmResult) -> dict[str, Json]:
    tuned = result.tuned
    trials: Json = None
    if tuned is not None:
        trials = [
            {**_fields(trial), "score": trial.score, "chosen": trial is tuned.best}
            for trial in tuned.trials
        ]
    return {
        "name": result.arm.name,
        "settings": [redact(text) for text in result.arm.settings],
        "summary": _plain(result.summary),
        "runs": [
            {**_fields(run), "evaluations": _plain(curve.points)}
            for run, curve in zip(result.runs, result.curves, strict=True)
        ],
        "tuning": trials,
        "edges": None if tuned is None else list(tuned.edges),
    }


def _differences(study: Study) -> list[Json]:
    base = study.arms[-1]
    return [
        {"setting": change.key, arm.arm.name: change.after, base.arm.name: change.before}
        for arm in study.arms[:-1]
        for change in differences(base.config, arm.config)
    ]


def _fields(record: object) -> dict[str, Json]:
    assert is_dataclass(record)
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def _plain(value: object) -> Json:
    """Turn records into JSON; `_fields` by name, numbers that JSON lacks in words."""
    if isinstance(value, Reach):
        return {"reached": value.value is not None, **_fields(value)}
    if isinstance(value, Point):
        return [value.step, *(_plain(x) for x in (value.rollouts, value.seconds, value.success))]
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "infinite"
