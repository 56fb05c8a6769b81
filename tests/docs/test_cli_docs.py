"""docs/cli.md says what the commands say."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_cli_docs.py"))
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == script["reference"](), "run: python scripts/write_cli_docs.py"
