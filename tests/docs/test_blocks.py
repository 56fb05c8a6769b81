"""Code on a page is fenced and says its language, because that decides how it is tried."""

from __future__ import annotations

import re

import pytest

from .pages import HELP, LANGUAGES, PAGES, blocks, commands, indented

_COMMAND = re.compile(r"^(\$ |recollect |make |pip |python |torchrun |bash |git |export )", re.M)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    assert [block.name for block in blocks(page) if block.language not in LANGUAGES] == []
    assert indented(page) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != HELP])
def test_no_command_hides_in_text(page: str) -> None:
    hidden = [b.name for b in blocks(page) if b.language == "text" and _COMMAND.search(b.text)]
    assert hidden == []


def test_commands_are_taken_apart() -> None:
    text = "recollect a   # why\n\nrecollect b \\\n    c=1\nrecollect d 'x  #y'\n"
    assert commands(text)[:2] == ["recollect a", "recollect b c=1"]
