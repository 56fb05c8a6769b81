"""Write docs/config.md from the schema of the configuration.

python scripts/write_config_docs.py
"""

from __future__ import annotations

from pathlib import Path

from recollect.config.docs_table import config_reference

PAGE = Path(__file__).resolve().parent.parent / "docs" / "config.md"


def main() -> None:
    """Write the page; tests/docs/test_config_docs.py fails while it is stale."""
    PAGE.write_text(config_reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
