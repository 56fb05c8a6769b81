"""docs/words.md: every word once."""

from __future__ import annotations

import re

from .pages import read


def test_no_word_is_explained_twice() -> None:
    words = re.findall(r"^\| ([^|]+?) \|", read("docs/words.md"), re.MULTILINE)[2:]
    assert len(words) > 30
    assert len(set(words)) == len(words)
