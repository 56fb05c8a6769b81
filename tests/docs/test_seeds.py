"""docs/seeds.md: no empty cell, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "seeds.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows_with_tests() -> list[list[str]]:
    """The rows of tables whose last column names a test."""
    found, proved = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if not cells:
            proved = False
        elif cells[-1] == "test":
            proved = True
        elif proved and set(cells[0]) != {"-"}:
            found.append(cells)
    return found


ROWS = rows_with_tests()


def test_there_are_rows() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: cells[0][:40])
def test_a_row_says_where_it_is_and_what_proves_it(cells: list[str]) -> None:
    assert len(cells) == 4
    assert cells[0]
    assert cells[1]
    named = _NAMED.findall(cells[-1])
    assert named, cells[-1]
    for file, test in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in source, f"{file}::{test}"
