"""What the pages quote from benchmarks/results: a file for each page, a function for each result.

A quote is the shortest piece of a page that holds a figure, or the rows of a table; the results
file fills the figures in, and the page must have the piece as it then is.
"""

from __future__ import annotations

from . import continual, notes, ppo, readme, replay, results, scale, store, tau2, training
from .spelling import Quoting

# README.zh-CN.md has the figures of README.md: test_readme.py.
QUOTES: dict[str, dict[str, Quoting]] = {
    "README.md": readme.QUOTES,
    "docs/continual.md": continual.QUOTES,
    "docs/notes.md": notes.QUOTES,
    "docs/ppo.md": ppo.QUOTES,
    "docs/replay.md": replay.QUOTES,
    "docs/results.md": results.QUOTES,
    "docs/scale.md": scale.QUOTES,
    "docs/store.md": store.QUOTES,
    "docs/tau2.md": tau2.QUOTES,
    "docs/training.md": training.QUOTES,
}
