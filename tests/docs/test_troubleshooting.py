"""docs/troubleshooting.md: findings, settings, metrics and errors are those of the code."""

from __future__ import annotations

import re

import pytest

from recollect import errors
from recollect.config.settings import all_settings
from recollect.telemetry.names import find_metric

from .pages import read

TEXT = re.sub(r"```.*?```", "", read("docs/troubleshooting.md"), flags=re.DOTALL)
CODED = re.findall(r"`([^`]+)`", TEXT)
FINDINGS = re.findall(r"^\| `(\w+)` \|", read("docs/doctor.md"), re.MULTILINE)
SECTIONS = {key.partition(".")[0] for key in all_settings()}


def test_every_finding_of_the_doctor_is_here() -> None:
    assert len(FINDINGS) > 20
    assert [name for name in FINDINGS if name not in CODED] == []


def test_every_error_named_exists_and_says_so() -> None:
    rows = re.findall(r"^\| ([^|]*?\((`\w+`(?:, `\w+`)*)\)[^|]*) \|", TEXT, re.MULTILINE)
    named = [name for _, names in rows for name in re.findall(r"\w+", names)]
    assert len(named) > 20
    assert [name for name in named if not isinstance(getattr(errors, name, None), type)] == []


@pytest.mark.parametrize("setting", sorted({c.partition("=")[0] for c in CODED if "." in c}))
def test_every_setting_named_exists(setting: str) -> None:
    if setting.partition(".")[0] in SECTIONS:
        assert setting in all_settings()


def test_every_metric_named_exists() -> None:
    metrics = [c for c in CODED if re.fullmatch(r"[a-z]+/[a-z_0-9]+", c)]
    assert len(metrics) >= 4
    assert [name for name in metrics if find_metric(name) is None] == []
