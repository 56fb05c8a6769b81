"""The two READMEs say the same: commands, links, figures."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from .pages import ROOT, blocks

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")


def code(page: str) -> list[str]:
    """Commands of code blocks; what they are for is said in the page's language."""
    return [
        line.partition("  #")[0].rstrip()
        for block in blocks(page)
        for line in block.text.splitlines()
    ]


def links(text: str) -> Counter[str]:
    """Files that are linked to, but for the two READMEs themselves."""
    found = re.findall(r"\]\(([^)]+)\)", text)
    return Counter(link for link in found if not link.startswith("README"))


def coded(text: str) -> Counter[str]:
    """What stands in backticks, outside of blocks."""
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return Counter(re.findall(r"`([^`]+)`", bare))


def figures(text: str) -> Counter[str]:
    """Numbers outside of links and code."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    return Counter(re.findall(r"(?<![\w.])\d[\d,.]*\d|(?<![\w.])\d", plain))


def test_the_same_commands() -> None:
    assert code("README.md")[0].startswith("make demo")
    assert code("README.md") == code("README.zh-CN.md")


def test_the_same_names_in_code() -> None:
    assert coded(ENGLISH) == coded(CHINESE)


def test_the_same_figures() -> None:
    assert figures(ENGLISH) == figures(CHINESE)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_links_lead_somewhere(text: str) -> None:
    assert [link for link in links(text) if not (ROOT / link.partition("#")[0]).exists()] == []
