"""docs/metrics.md is what the table of names says, now."""

import runpy
from pathlib import Path

from recollect.telemetry.names import METRICS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "write_metric_docs.py"))
PAGE = ROOT / "docs" / "metrics.md"


def test_the_page_is_not_stale() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == SCRIPT["render"](), "run: python scripts/write_metric_docs.py"


def test_the_page_lists_every_metric_once() -> None:
    page = SCRIPT["render"]()
    for metric in METRICS:
        assert page.count(f"\n| `{metric.name}`") == 1
