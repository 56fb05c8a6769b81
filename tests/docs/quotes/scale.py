"""docs/scale.md: the arithmetic of a pool, from what was measured."""

from __future__ import annotations

from .spelling import Quoting, Results, span

# Bytes a row of DrawIndex, counted by hand: a flag, a weight, a place by task.
TO_DRAW = 18


def store(results: Results) -> list[str]:
    """What a row takes in memory, and the time to index them."""
    million = results["figures"]["growth"][-1]
    kept, seconds = round(million["bytes_per_row"]), million["index_s"]
    held = kept + TO_DRAW
    return [
        f"`benchmarks/results/store.json`) | {kept} |",
        f"(`DrawIndex`) | {TO_DRAW} |",
        f"bytes on disk and {held} N",
        f"| {held} MB |",
        f"| {held / 100:.1f} GB |",
        f"| {held / 10:.0f} GB |",
        f"{seconds:.1f} s for 1 M rows from SQLite",
        f"about {100 * seconds / 60:.0f} minutes",
    ]


def postgres(results: Results) -> list[str]:
    """What several writers were measured to do."""
    return [f"{span(list(results['figures']['writers'].values()))} rows a second"]


def draw(results: Results) -> list[str]:
    """A draw from a million rows, and the first one from a hundred million."""
    ms = results["figures"]["milliseconds_for_256_draws"]["1000000"]
    return [
        f"{ms['all rules']:.1f} ms for 1 M rows by all rules",
        f"{ms['age limit']:.1f} ms with an age limit",
        f"O(N) the first time, {ms['made anew']:.0f} ms",
        f"or {ms['made anew'] / 10:.0f} s the first time",
    ]


QUOTES: dict[str, Quoting] = {"store": store, "store_postgres": postgres, "draw": draw}
