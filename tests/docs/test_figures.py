"""The figures on pages are those of benchmarks/results: a stale one is named, with the right one."""

from __future__ import annotations

import re

import pytest

from .figures import FILES, Section, folded, named, quotes, sections, stale
from .pages import PAGES, read
from .quotes import QUOTES
from .quotes.unmeasured import CALCULATED, UNMEASURED

# Named on a page while they are measured. Whoever adds the file takes it out, and quotes it.
AWAITED = {"replay_settings_epochs_sparse", "replay_settings_epochs_dense"}
PAIRS = [(page, file) for page, files in QUOTES.items() for file in files]


@pytest.mark.parametrize(("page", "file"), PAIRS)
def test_a_page_says_what_was_measured(page: str, file: str) -> None:
    text = read(page)
    found = [line for quote in quotes(page, file) for line in stale(text, quote)]
    assert not found, f"{page}, by benchmarks/results/{file}.json:\n\n" + "\n\n".join(found)


def test_every_results_file_is_quoted() -> None:
    unquoted = sorted(set(FILES) - {file for _, file in PAIRS})
    assert not unquoted, (
        f"put these into tests/docs/quotes, with a page that explains them: {unquoted}"
    )
    here = named(read("docs/results.md"))
    assert set(FILES) <= here, "docs/results.md lists all measurements"
    assert not AWAITED & set(FILES), "measured now: take them out of AWAITED"


@pytest.mark.parametrize("page", QUOTES)
def test_files_that_a_page_names_exist(page: str) -> None:
    assert named(read(page)) - AWAITED <= set(FILES)
    assert set(QUOTES[page]) <= named(read(page)), "a page names the file of what it quotes"


def loose_numbers(page: str, section: Section) -> list[str]:
    """Numbers of a section that are in no quote, each with the words around it."""
    pieces = [folded(quote) for file in QUOTES[page] for quote in quotes(page, file)]
    pieces += UNMEASURED.get(page, ())
    hidden = section.text
    for piece in sorted(pieces, key=len, reverse=True):
        # Blanks keep their places, so that what is left can be shown in its sentence.
        hidden = hidden.replace(piece, " " * len(piece))
    hidden = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda code: " " * len(code[0]), hidden)
    found = re.finditer(r"(?<![\w.-])\d+(?:[.,]\d+)*(?:e-?\d+)?", hidden)
    return [f"...{section.text[max(0, m.start() - 50) : m.end() + 30]}..." for m in found]


@pytest.mark.parametrize("page", QUOTES)
def test_no_figure_beside_a_results_file_is_left_to_care(page: str) -> None:
    """In sections that name a results file, tables and prose; what is in quotes is not looked at."""
    loose = [
        words
        for section in sections(page)
        if named(section.text) and (page, section.title) not in CALCULATED
        for words in loose_numbers(page, section)
    ]
    assert not loose, "measured: tests/docs/quotes; else: quotes/unmeasured.py\n" + "\n".join(loose)


@pytest.mark.parametrize("page", UNMEASURED)
def test_what_is_not_measured_is_still_on_its_page(page: str) -> None:
    assert [piece for piece in UNMEASURED[page] if folded(piece) not in folded(read(page))] == []


def test_calculated_sections_are_still_there() -> None:
    assert {(page, part.title) for page in PAGES for part in sections(page)} >= CALCULATED


def test_a_stale_figure_is_shown_with_what_it_should_be() -> None:
    page = "A draw takes 5.7\nms, the first 95 ms.\n\n| rows | ms |\n|---|---|\n| 10 | 1.5 |\n| 20 | 2.5 |"
    assert stale(page, "takes 5.7 ms, the first 95 ms") == []
    (found,) = stale(page, "takes 5.5 ms, the first 101 ms")
    assert found == (
        "  should say: takes 5.5 ms, the first 101 ms\n  and says:   takes 5.7 ms, the first 95 ms"
    )
    assert stale(page, "| 10 | 1.5 |\n| 20 | 2.5 |") == []
    (found,) = stale(page, "| 10 | 1.5 |\n| 20 | 2.7 |")
    assert found == "  should say: | 20 | 2.7 |\n  and says:   | 20 | 2.5 |"
    (found,) = stale(page, "| 20 | 2.5 |\n| 10 | 1.5 |")
    assert "in this order" in found


def test_a_figure_that_nobody_quotes_is_found() -> None:
    (mine,) = [part for part in sections("docs/training.md") if named(part.text)]
    assert loose_numbers("docs/training.md", mine) == []
    added = Section(mine.title, mine.text + " It took 7.5 s, or `8` s.")
    assert len(loose_numbers("docs/training.md", added)) == 1
