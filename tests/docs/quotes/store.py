"""docs/store.md, and what docs/scale.md takes from the same files."""

from __future__ import annotations

from .spelling import Quoting, Results, short, spread, table

# Bytes a row of DrawIndex, counted by hand: a flag, a weight, a place by task.
TO_DRAW = 18


def store(results: Results) -> list[str]:
    """SQLite beside a plain table, and as it grows."""
    plain, growth = results["figures"]["against_plain"], results["figures"]["growth"]
    ratios = {name: spread(plain[f"{name}_ratio"], ".2f") for name in
              ("commit", "commit_records", "read_frames", "read_records", "read_checked")}  # fmt: skip
    return [
        f"Rows of {plain['row_bytes'] / 1000:.1f} kB, committed in groups of 64",
        table(
            [
                f"| committing records, plain is given ready-made bytes | {ratios['commit']}; "
                f"{plain['commit_rows_per_s']['median']:,.0f} rows a second |",
                "| committing records, plain encodes the same records | "
                f"{ratios['commit_records']} |",
                "| reading frames at random, ours with their checksums verified | "
                f"{ratios['read_frames']} |",
                "| reading records, plain makes two arrays and parses JSON | "
                f"{ratios['read_records']}; "
                f"{plain['read_records_per_s']['median']:,.0f} records a second |",
                "| reading records, plain also checks them and makes all arrays | "
                f"{ratios['read_checked']} |",
            ]
        ),
        table(
            f"| {size['rows']:,} | {size['open_ms']:.1f} ms | {short(size['index_s'])} s | "
            f"{size['bytes_per_row']:.0f} bytes | {size['refresh_ms']:.1f} ms | "
            f"{size['read_64_ms']:.1f} ms | {size['file_mb']:,.0f} MB |"
            for size in growth
        ),
    ]


def postgres(results: Results) -> list[str]:
    """PostgreSQL beside SQLite."""
    figures = results["figures"]
    large, small, writers = (figures[key] for key in ("large_rows", "small_rows", "writers"))
    ten, hundred = figures["growth"]
    return [
        f"PostgreSQL {figures['server']} beside SQLite",
        table(
            [
                "| committing 64 records, ratio to SQLite | "
                f"{spread(large['commit_ratio'], '.2f')} | {spread(small['commit_ratio'], '.2f')} |",
                "| reading 64 records at random, ratio to SQLite | "
                f"{spread(large['read_ratio'], '.2f')} | {spread(small['read_ratio'], '.2f')} |",
            ]
        ),
        f"One, two and four writers of one store committed {writers['1']:.0f}, {writers['2']:.0f} and "
        f"{writers['4']:.0f} rows of 19.7 kB a second together",
        f"A row of 1 kB took {1000 * ten['mb'] / ten['rows']:.1f} kB with its indexes at "
        f"{ten['rows']:,} rows and {1000 * hundred['mb'] / hundred['rows']:.1f} kB at "
        f"{hundred['rows']:,}, and indexing a pool of {hundred['rows']:,} took "
        f"{hundred['index_s']:.1f} s.",
    ]


def store_at_scale(results: Results) -> list[str]:
    """The arithmetic of a pool: what was measured, and what follows from it."""
    million = results["figures"]["growth"][-1]
    kept = round(million["bytes_per_row"])
    held = kept + TO_DRAW
    seconds = 100 * million["index_s"]
    return [
        f"{results['figures']['against_plain']['row_bytes'] / 1000:.1f} kB in our benchmark",
        f"| index of the pool in memory (`Pool`, `benchmarks/results/store.json`) | {kept} |",
        f"(`DrawIndex`) | {TO_DRAW} |",
        f"bytes on disk and {held} N in the memory",
        f"| {held} MB |",
        f"| {held / 100:.1f} GB |",
        f"| {held / 10:.0f} GB |",
        f"| opening a pool | O(N) once: {million['index_s']:.1f} s for 1 M rows from SQLite "
        f"(`benchmarks/results/store.json`) | about {seconds / 60:.0f} minutes",
    ]


def postgres_at_scale(results: Results) -> list[str]:
    """What several writers were measured to do."""
    writers = results["figures"]["writers"].values()
    return [f"{min(writers):.0f} to {max(writers):.0f} rows a second with one to four writers"]


def draws_at_scale(results: Results) -> list[str]:
    """A draw from a million rows, and the first one from a hundred million."""
    found = results["figures"]["milliseconds_for_256_draws"]
    ms = found["1000000"]
    # What grows with the rows are the sums of blocks: a hundred times from a million on.
    grown = 100 * (ms["all rules"] - found["10000"]["all rules"]) + found["10000"]["all rules"]
    return [
        f"no I/O: {ms['all rules']:.1f} ms for 1 M rows by all rules, {ms['age limit']:.1f} ms with an "
        f"age limit; O(N) the first time, {ms['made anew']:.0f} ms (`benchmarks/results/draw.json`)",
        f"| about {grown / 1000:.1f} s, or {100 * ms['made anew'] / 1000:.0f} s the first time |",
    ]


STORE: dict[str, Quoting] = {"store": store, "store_postgres": postgres}
SCALE: dict[str, Quoting] = {
    "store": store_at_scale,
    "store_postgres": postgres_at_scale,
    "draw": draws_at_scale,
}
