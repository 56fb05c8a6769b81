"""docs/config.md is what the schema says, now."""

from pathlib import Path

from recollect.config.docs_table import config_reference
from recollect.config.settings import all_settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "config.md"


def test_the_page_is_not_stale() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == config_reference(), "run: python scripts/write_config_docs.py"


def test_the_page_lists_every_setting_once() -> None:
    page = config_reference()
    for key in all_settings():
        assert page.count(f"\n| `{key}` |") == 1
