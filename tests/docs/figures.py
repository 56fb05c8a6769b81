"""Figures on pages: what a results file makes a page say, and where the page says otherwise."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass

from .pages import ROOT, read
from .quotes import QUOTES
from .quotes.spelling import Results

RESULTS = ROOT / "benchmarks" / "results"
FILES = tuple(sorted(path.stem for path in RESULTS.glob("*.json")))
# Files of a run or a comparison that pages with figures name as well.
OF_RUNS = {"metrics", "comparison"}
NUMBER = r"(?:[-+]?\d[\d.,]*(?:e-?\d+)?|infinite)"


def results(file: str) -> Results:
    """Read a results file."""
    found: Results = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))
    return found


def folded(text: str) -> str:
    """Fold line breaks and runs of blanks, so that it does not matter where prose is wrapped."""
    return " ".join(text.split())


def quotes(page: str, file: str) -> list[str]:
    """What the page should say by the file."""
    return QUOTES[page][file](results(file))


def stale(text: str, quote: str) -> list[str]:
    """Say what a text should have instead of what it has; nothing if it has the quote.

    A table is one quote of several lines: those that are right are not repeated.
    """
    whole = folded(text)
    if folded(quote) in whole:
        return []
    lines = [line for line in quote.split("\n") if folded(line) not in whole]
    if not lines:
        return [f"  should be, in this order and with nothing between:\n{quote}"]
    return [f"  should say: {line}\n  and says:   {_nearest(text, folded(line))}" for line in lines]


def _nearest(text: str, quote: str) -> str:
    """Find what stands where the quote should: the same words with other numbers, or the like."""
    words = NUMBER.join(re.escape(part) for part in re.split(NUMBER, quote))
    found = re.findall(words, folded(text))
    if not found:
        found = [folded(line) for line in text.splitlines() if line.startswith("|")]
        prose = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        found += re.split(r"(?<=[.:;]) (?=[A-Z*`])", folded(prose))
    return difflib.get_close_matches(quote, found, n=1, cutoff=0)[0]


@dataclass(frozen=True)
class Section:
    """A part of a page under one heading, folded."""

    title: str
    text: str


def sections(page: str) -> list[Section]:
    """Take a page apart at its headings, blocks of code left out."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"^(?=#+ )", text, flags=re.MULTILINE)
    return [Section(part.partition("\n")[0].lstrip("# "), folded(part)) for part in parts]


def named(text: str) -> set[str]:
    """Results files that a text names."""
    return set(re.findall(r"`(?:benchmarks/results/)?(\w+)\.json`", text)) - OF_RUNS
