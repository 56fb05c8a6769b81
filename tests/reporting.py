"""What a random or counting test tells whoever runs it (shown by `pytest -s` and on failure)."""

from __future__ import annotations

import os
import sys


def report(line: str) -> None:
    """Print one line of counts, or the seed that makes a failure happen again."""
    sys.stdout.write(f"\n{line}\n")


def chosen_seed(test: str) -> int:
    """Choose a new seed and say it; RECOLLECT_SEED=n makes a test use that of a failure."""
    given = os.environ.get("RECOLLECT_SEED")
    seed = int.from_bytes(os.urandom(4), "little") if given is None else int(given)
    report(f"{test}: RECOLLECT_SEED={seed}")
    return seed
