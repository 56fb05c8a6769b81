"""docs/store.md: how fast."""

from __future__ import annotations

from .spelling import Quoting, Results, short, spread


def store(results: Results) -> list[str]:
    """SQLite beside a plain table, and as it grows."""
    plain, growth = results["figures"]["against_plain"], results["figures"]["growth"]
    ratios = {
        "plain is given ready-made bytes": "commit",
        "plain encodes the same records": "commit_records",
        "ours with their checksums verified": "read_frames",
        "plain makes two arrays and parses JSON": "read_records",
        "plain also checks them and makes all arrays": "read_checked",
    }
    return [
        *(f"{label} | {spread(plain[f'{k}_ratio'], '.2f')}" for label, k in ratios.items()),
        f"; {plain['commit_rows_per_s']['median']:,.0f} rows a second |",
        f"; {plain['read_records_per_s']['median']:,.0f} records a second |",
        "\n".join(
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
    commit, reading = (
        f"{spread(large[key], '.2f')} | {spread(small[key], '.2f')} |"
        for key in ("commit_ratio", "read_ratio")
    )
    return [
        f"| committing 64 records, ratio to SQLite | {commit}",
        f"| reading 64 records at random, ratio to SQLite | {reading}",
        f"{writers['1']:.0f}, {writers['2']:.0f} and {writers['4']:.0f} rows of",
        *(f"{1000 * s['mb'] / s['rows']:.1f} kB" for s in figures["growth"]),
        f"took {figures['growth'][-1]['index_s']:.1f} s",
    ]


QUOTES: dict[str, Quoting] = {"store": store, "store_postgres": postgres}
