"""docs/walk.md: every file and every name on the page is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "recollect"
TEXT = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
CODED = re.findall(r"`([^`]+)`", TEXT)
FILES = [name for name in CODED if name.endswith(".py") and not name.startswith("tests/")]
NAMES = [name for name in CODED if re.fullmatch(r"[A-Za-z_]+(\.[a-z_]+)?", name)]


def test_the_files_are_there() -> None:
    assert len(FILES) > 25
    assert [name for name in FILES if not (SOURCE / name).is_file()] == []


def test_the_names_are_defined_in_a_file_that_the_page_names() -> None:
    sources = "\n".join((SOURCE / name).read_text(encoding="utf-8") for name in set(FILES))
    settings = {"replay.modes", "pool.max_ratio", "correction.drop_above"}
    wanted = {
        name.split(".")[-1] for name in NAMES if name not in settings and not name.endswith(".py")
    }
    assert len(wanted) > 20
    missing = [name for name in wanted if not re.search(rf"(def|class) {name}\b", sources)]
    assert missing == []


def test_a_name_is_defined_in_the_file_beside_it() -> None:
    pairs = re.findall(r"`([A-Za-z_.]+)`\s+(?:\(|in\s)`([\w/]+\.py)`", TEXT)
    assert len(pairs) > 20
    for name, file in pairs:
        source = (SOURCE / file).read_text(encoding="utf-8")
        assert re.search(rf"(def|class) {name.split('.')[-1]}\b", source), (name, file)


def test_the_phases_come_in_the_order_of_the_loop() -> None:
    loop = (SOURCE / "train" / "loop.py").read_text(encoding="utf-8")
    phases = re.findall(r'watch\("(\w+)"\)', loop)
    told = re.findall(r"^\d\. \*\*(\w+)\*\*", TEXT, re.MULTILINE)
    assert told == phases
