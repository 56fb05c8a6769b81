"""The store in PostgreSQL beside the store in SQLite, on one disk, in turns.

    python benchmarks/store_postgres.py                    a server of its own (needs initdb)
    python benchmarks/store_postgres.py --at postgres://user@host/database     yours; schemas
                                                           bench_* are made in it and removed

Both sides start from records and end with records, with full durability (`synchronous=FULL`;
`fsync` and `synchronous_commit` on). The machine is shared, so only ratios mean something. A server
of its own lies on the disk of the SQLite file and is reached over loopback: a network adds its
round trips.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import psycopg
from rich.console import Console
from rich.table import Table

from recollect import Batch, Pool, Trajectory, open_reader, open_store
from recollect.ledger import Run
from recollect.store.address import Place, PostgresAddress, parse_address
from recollect.store.base import Store
from results_file import spread, write_results
from store import GROUP, RUN, SEED, TASKS, make_rows, ratios, timed

_SETTINGS = ("listen_addresses=127.0.0.1", "shared_buffers=256MB", "max_wal_size=2GB")


@contextmanager
def own_server(folder: Path) -> Iterator[str]:
    """Start a server with its default durability in a folder; gives its address."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    programs = found[-1] if found else Path(shutil.which("initdb") or "").parent
    # PostgreSQL refuses to run as root; Debian's package brings a user for it.
    as_whom = "postgres" if os.getuid() == 0 else None
    if as_whom:
        shutil.chown(folder, as_whom, as_whom)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    subprocess.run(
        [str(programs / "initdb"), "-D", "data", "-A", "trust", "-U", "recollect", "-E", "UTF8"],
        cwd=folder,
        check=True,
        capture_output=True,
        user=as_whom,
        group=as_whom,
    )
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = [str(programs / "postgres"), "-D", "data", "-p", str(port), "-k", ".", *settings]
    url = f"postgres://recollect@127.0.0.1:{port}/postgres"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, user=as_whom, group=as_whom
        )
        try:
            _wait_for(url)
            yield url
        finally:
            process.terminate()
            process.wait()


def _wait_for(url: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@contextmanager
def schema(url: str, name: str) -> Iterator[PostgresAddress]:
    """Give the address of a store that is removed afterwards."""
    address = parse_address(f"{url}{'&' if '?' in url else '?'}schema=bench_{name}")
    drop = f"DROP SCHEMA IF EXISTS bench_{name} CASCADE".encode()
    for end in (False, True):
        with psycopg.connect(address.url, autocommit=True) as link:
            link.execute(drop)
        if not end:
            yield address


def new_store(place: Place) -> Store:
    """Open an empty store that knows the run and its tasks."""
    store = open_store(place)
    store.commit(Batch(runs=[Run(RUN)], tasks=TASKS))
    return store


def side_by_side(folder: Path, url: str, rounds: int, tokens: int) -> dict[str, object]:
    """Commit in groups of 64 and read at random, in turns."""
    with schema(url, f"side_{tokens}") as address:
        file, server = new_store(folder / f"side_{tokens}.db"), new_store(address)
        commits: dict[str, list[float]] = {"file": [], "server": []}
        reads: dict[str, list[float]] = {"file": [], "server": []}
        ids = []
        for number in range(rounds):
            rows = make_rows(number * GROUP, GROUP, tokens)
            ids += [row.id for row in rows]
            for name, store in (("file", file), ("server", server)):
                commits[name].append(GROUP / timed(store.commit, Batch(trajectories=rows)))
        chooser = random.Random(SEED)
        for _ in range(rounds):
            some = chooser.sample(ids, GROUP)
            for name, store in (("file", file), ("server", server)):
                reads[name].append(GROUP / timed(store.get, some))
        file.close()
        server.close()
    return {
        "tokens": tokens,
        "commit_rows_per_s": spread(commits["server"]),
        "commit_ratio": spread(ratios(commits["server"], commits["file"])),
        "read_records_per_s": spread(reads["server"]),
        "read_ratio": spread(ratios(reads["server"], reads["file"])),
    }


def several_writers(url: str, rounds: int, tokens: int) -> dict[str, float]:
    """Rows a second that 1, 2 and 4 writers of one store commit together, in groups of 64."""
    found = {}
    for writers in (1, 2, 4):
        with schema(url, f"writers_{writers}") as address:
            new_store(address).close()
            each = max(1, rounds // writers)
            groups = [
                [make_rows((w * each + n) * GROUP, GROUP, tokens) for n in range(each)]
                for w in range(writers)
            ]
            began = time.perf_counter()
            with ThreadPoolExecutor(writers) as pool:
                list(pool.map(lambda mine, at=address: _write(at, mine), groups))
            found[str(writers)] = writers * each * GROUP / (time.perf_counter() - began)
    return found


def _write(address: PostgresAddress, groups: list[list[Trajectory]]) -> None:
    with open_store(address) as store:
        for rows in groups:
            store.commit(Batch(trajectories=rows))


def growth(url: str, sizes: list[int], tokens: int) -> list[dict[str, float]]:
    """Fill one store further and further; at each size open it, index it, follow it and read."""
    table, filled = [], 0
    with schema(url, "growing") as address:
        new_store(address).close()
        for size in sizes:
            with open_store(address) as store:
                while filled < size:
                    block = min(4096, size - filled)
                    store.commit(Batch(trajectories=make_rows(filled, block, tokens)))
                    filled += block
            opening = timed(lambda: open_store(address).close())
            with open_reader(address) as reader:
                indexing = timed(Pool, reader)
                pool = Pool(reader)
                some = np.array(random.Random(SEED).sample(range(len(pool)), GROUP))
                reading = timed(pool.read, some)
                with open_store(address) as store:
                    rows = make_rows(filled, GROUP, tokens)
                    committing = timed(store.commit, Batch(trajectories=rows))
                    filled += GROUP
                following = timed(pool.refresh)
                size_on_disk = reader.stats().file_bytes
            table.append(
                {
                    "rows": size,
                    "open_ms": opening * 1e3,
                    "index_s": indexing,
                    "refresh_ms": following * 1e3,
                    "read_64_ms": reading * 1e3,
                    "commit_64_ms": committing * 1e3,
                    "mb": size_on_disk / 1e6,
                }
            )
    return table


def show(figures: dict[str, object]) -> None:
    """Print the tables."""
    console = Console()
    for side in (figures["large_rows"], figures["small_rows"]):
        assert isinstance(side, dict)
        table = Table("PostgreSQL", "median", "min", "max", title=f"{side['tokens']} tokens a row")
        for name, value in side.items():
            if isinstance(value, dict):
                table.add_row(name, *(f"{value[key]:,.2f}" for key in ("median", "min", "max")))
        console.print(table)
    console.print("rows a second by writers:", figures["writers"])
    grown = figures["growth"]
    assert isinstance(grown, list)
    table = Table(*grown[0], title="Growth with the pool")
    for row in grown:
        table.add_row(*(f"{value:,.1f}" for value in row.values()))
    console.print(table)


def main() -> None:
    """Run everything and write benchmarks/results/store_postgres.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", help="a database to use instead of a server of its own")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, up to 10 k rows")
    given = parser.parse_args()
    rounds = 10 if given.quick else 60
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as place:
        folder, data = Path(place) / "file", Path(place) / "server"
        folder.mkdir()
        data.mkdir()
        Path(place).chmod(0o755)  # the server may be another user's
        with nullcontext(given.at) if given.at else own_server(data) as url:
            with psycopg.connect(url) as link:
                version = link.info.server_version
            figures: dict[str, object] = {
                "server": version // 10000,
                "large_rows": side_by_side(folder, url, rounds, tokens=2600),
                "small_rows": side_by_side(folder, url, rounds, tokens=48),
                "writers": several_writers(url, rounds, tokens=2600),
                "growth": growth(url, [1000, 10_000] if given.quick else [10_000, 100_000], 48),
            }
    show(figures)
    if not given.quick:
        path = write_results("store_postgres", figures, [SEED], ["numpy", "psycopg"])
        Console().print(f"written to {path}")


if __name__ == "__main__":
    main()
