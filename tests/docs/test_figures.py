"""The figures on pages are those of benchmarks/results; a stale one is shown with the right one."""

from __future__ import annotations

import json
import re

import pytest

from .pages import ROOT, read
from .quotes import QUOTES
from .quotes.spelling import Results

RESULTS = ROOT / "benchmarks" / "results"
PAIRS = [(page, file) for page, files in QUOTES.items() for file in files]
NUMBER = r"[-+]?\d[\d.,]*|infinite"


def folded(text: str) -> str:
    """Fold line breaks and runs of blanks, so that it does not matter where prose is wrapped."""
    return " ".join(text.split())


def stale(page: str, quote: str) -> list[str]:
    """Say which lines of a quote a page lacks, and what it has with other numbers; best nothing.

    A quote without bold letters does not mind them on the page.
    """
    text = folded(page) if "**" in quote else folded(page).replace("**", "")
    if folded(quote) in text:
        return []
    lacking = []
    for line in map(folded, quote.splitlines()):
        like = f"(?:{NUMBER})".join(map(re.escape, re.split(NUMBER, line)))
        lacking += [f"should say: {line}\nand says:   {re.findall(like, text)}"] * (
            line not in text
        )
    return lacking or [f"should have these rows in this order, with none between:\n{quote}"]


@pytest.mark.parametrize(("page", "file"), PAIRS)
def test_a_page_says_what_was_measured(page: str, file: str) -> None:
    results: Results = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))
    found = [line for quote in QUOTES[page][file](results) for line in stale(read(page), quote)]
    assert not found, f"{page}, by benchmarks/results/{file}.json:\n\n" + "\n\n".join(found)
    assert f"{file}.json`" in read(page), "a page names the file of what it quotes"


def test_every_results_file_is_quoted_and_listed() -> None:
    files = {path.stem for path in RESULTS.glob("*.json")}
    assert files == {file for _, file in PAIRS}
    named = re.findall(r"`(?:benchmarks/results/)?(\w+)\.json`", read("docs/results.md"))
    assert set(named) == files, "docs/results.md lists every results file, and no other"


def test_a_stale_figure_is_shown_with_what_it_should_be() -> None:
    page = "A draw takes 5.7\nms, the first 95 ms.\n\n| 10 | 1.5 |\n| 20 | 2.5 |"
    assert stale(page, "takes 5.7 ms, the first 95") == []
    assert stale(page, "takes 5.5 ms, the first 101") == [
        "should say: takes 5.5 ms, the first 101\nand says:   ['takes 5.7 ms, the first 95']"
    ]
    assert stale(page, "| 10 | 1.5 |\n| 20 | 2.5 |") == []
    (found,) = stale(page, "| 10 | 1.5 |\n| 20 | 2.7 |")
    assert found.startswith("should say: | 20 | 2.7 |")
    (found,) = stale(page, "| 20 | 2.5 |\n| 10 | 1.5 |")
    assert "in this order" in found
