"""How long does a draw take? Ours with all rules against prioritised samplers with their one.

    python benchmarks/draw.py                 10 k, 100 k and 1 M rows
    python benchmarks/draw.py --rows 10000    one size

256 rows are drawn from a pool, step after step. Ours applies every rule at once (age, uses,
cooldown, effective sample size, fingerprints, priority, freshness, bucket weights) and knows each
row's exact inclusion probability; cpprb's and TorchRL's samplers draw with replacement by priority
alone. After each draw the priorities of the drawn rows change, and taking that in is timed for all
of them. Ours also takes in a step of training each time: the drawn rows were used once more and
rest for a step, 64 rows arrived, 8 tasks have a new success rate, and all rows are a step older.
What happened is read from a stand-in for a store, in memory; that it happens is not timed.

- "age limit": an age limit that leaves 1 % of the pool, as in training;
- "quotas": besides all rules, 2 rows of a task and half of a draw for a domain;
- "made anew": the first draw of an index, as after a resume or when a limit was moved.

Times are processor time, the median of the rounds, taking turns in one process of one thread: what
else the machine does adds cache misses to them, but no waiting.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from recollect.ledger import Event, Run
from recollect.replay.book import Result, Retirement, TaskBook
from recollect.replay.eligibility import Now, Rules
from recollect.replay.index import DrawIndex, Scheme
from recollect.replay.pool import Pool
from recollect.replay.sampling import Drawn
from recollect.replay.task_columns import TaskColumns
from recollect.replay.weights import Weighing
from recollect.store.records import PACK, Changes, Columns, Provenance
from recollect.types import RunId, Task
from results_file import write_results

DRAWS = 256
ARRIVING = 64
MOVING = 8
GROUP = 8
RUN = RunId("bench")
MADE_BY = Provenance("t", "e", "r")
_BLOCK = 65536


class Rows:
    """A store that only feeds a pool: rows as a run of 64 rows a step would leave them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rng = np.random.default_rng(0)
        tasks = max(2, size // 64)
        self._tasks = {n: Task("bench", str(n), domain=str(n % 3)) for n in range(1, tasks + 1)}
        self._changed: list[Columns] = []

    def changes(self, since: int | None, run: RunId | None = None) -> Changes:
        """Give all rows, and then what was written."""
        added = self._blocks() if since is None else iter(self._changed)
        self._changed = []
        return Changes(1, False, added, np.empty(0, np.int64))

    def use(self, pool: Pool, rows: NDArray[np.int64], step: int) -> None:
        """Write that rows were used in a step, with new scores; and the fresh rows of the step."""
        scores = self._rng.normal(size=rows.size).astype(np.float32)
        pack = np.zeros(rows.size, PACK)
        for name, values in pool.facts.items():
            pack[name] = values[rows]
        state = {
            field.name: getattr(pool, field.name)[rows]
            for field in fields(Columns)
            if field.name != "pack"
        }
        state |= {"advantage": scores, "priority": np.abs(scores)}
        state |= {"uses": state["uses"] + 1, "last_use": np.full(rows.size, step, np.int32)}
        self._changed = [Columns(pack=pack, **state), self._made(self._size, ARRIVING)]
        self._size += ARRIVING

    def _blocks(self) -> Iterator[Columns]:
        for start in range(0, self._size, _BLOCK):
            yield self._made(start, min(_BLOCK, self._size - start))

    def _made(self, start: int, n: int) -> Columns:
        rng, pack = self._rng, np.zeros(n, PACK)
        pack["task"] = rng.integers(1, len(self._tasks) + 1, n)
        pack["run"] = pack["provenance"] = 1
        pack["step"] = pack["version"] = np.arange(start, start + n) // 64
        pack["sampled"], pack["tokens"], pack["bytes"] = 60, 300, 2000
        pack["success"] = rng.random(n) < 0.4
        uses = rng.integers(0, 4, n).astype(np.int32)
        return Columns(
            seq=np.arange(start, start + n),
            pack=pack,
            uses=uses,
            last_use=np.where(uses > 0, pack["step"] + 1, -1).astype(np.int32),
            pinned=np.zeros(n, np.bool_),
            advantage=rng.normal(size=n).astype(np.float32),
            priority=rng.random(n).astype(np.float32),
            ess=rng.random(n).astype(np.float32),
            ratio=(1 + rng.random(n)).astype(np.float32),
        )

    def tasks(self, after: int = 0) -> dict[int, Task]:
        """All tasks by number, of which there never come more."""
        return {} if after else self._tasks

    def runs(self) -> dict[int, Run]:
        """The one run."""
        return {1: Run(RUN)}

    def newest_version(self, run: RunId) -> int:
        """The version of the last row."""
        return (self._size - 1) // 64

    def events(self, run: RunId, step: int | None = None) -> list[Event]:
        """Nothing was inherited."""
        return []

    def provenances(self) -> dict[int, Provenance]:
        """The one kind of rows."""
        return {1: MADE_BY}


@dataclass(frozen=True)
class Sampler:
    """A draw, and what happens between two draws; the draw alone is timed."""

    draw: Callable[[], Any]
    happens: Callable[[Any], None] = lambda drawn: None


def ours(size: int, max_age: int | None, quotas: bool = False, anew: bool = False) -> Sampler:
    """Make our draw over a pool of this size."""
    store, rng = Rows(size), np.random.default_rng(2)
    pool = Pool(store)  # type: ignore[arg-type]
    keys = [task.key for task in pool.tasks.values()]
    book = TaskBook(RUN, Retirement(False, 8, 20))
    book.update(0, [Result(key, int(rng.integers(0, GROUP + 1)), GROUP) for key in keys])
    tasks = TaskColumns(book, set(keys))
    tasks.follow(pool.tasks)
    rules = Rules(MADE_BY, max_age, max_uses=4, cooldown=1, min_ess=0.05, max_ratio=10.0)
    weighing = Weighing("advantage", 0.5, half_life=1e4, buckets="gaussian", sigma=0.3)
    limits = (2, 0.5) if quotas else (None, None)
    scheme = Scheme(weighing, True, False, *limits)
    index, step = DrawIndex(pool, tasks, scheme), size // 64

    def once() -> Drawn:
        nonlocal step
        step += 1
        pool.refresh()
        # Other rules than before: every row is looked at again.
        now_rules = replace(rules, max_ratio=10.0 + step) if anew else rules
        index.update(now_rules, Now(RUN, step, step))
        return index.draw(DRAWS, rng)

    def happens(drawn: Drawn) -> None:
        store.use(pool, drawn.positions, step)
        moving = rng.integers(0, len(keys), MOVING)
        wins = rng.integers(0, GROUP + 1, MOVING)
        results = zip(moving.tolist(), wins.tolist(), strict=True)
        tasks.apply(book.update(step, [Result(keys[n], won, GROUP) for n, won in results]))

    return Sampler(once, happens)


def cpprb(size: int) -> Sampler:
    """Make cpprb's prioritised draw."""
    from cpprb import PrioritizedReplayBuffer

    buffer = PrioritizedReplayBuffer(size, {"row": {"dtype": np.int64}}, alpha=0.5)
    rng = np.random.default_rng(2)
    for start in range(0, size, _BLOCK):
        n = min(_BLOCK, size - start)
        buffer.add(row=np.arange(start, start + n), priorities=rng.random(n))

    def once() -> object:
        drawn = buffer.sample(DRAWS, beta=0.4)
        buffer.update_priorities(drawn["indexes"], rng.random(DRAWS))
        return drawn["weights"]

    return Sampler(once)


def torchrl(size: int) -> Sampler:
    """Make TorchRL's prioritised draw."""
    import torch

    torch.set_num_threads(1)
    from torchrl.data.replay_buffers.samplers import PrioritizedSampler
    from torchrl.data.replay_buffers.storages import ListStorage

    sampler = PrioritizedSampler(size, alpha=0.5, beta=0.4)
    storage = ListStorage(size)
    storage._storage = list(range(size))
    everything = torch.arange(size)
    sampler.extend(everything)
    sampler.update_priority(everything, torch.rand(size))

    def once() -> object:
        index, info = sampler.sample(storage, DRAWS)
        sampler.update_priority(index, torch.rand(DRAWS))
        return info

    return Sampler(once)


def measure(samplers: dict[str, Sampler], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in samplers}
    for number in range(rounds + 3):
        for name, sampler in samplers.items():
            started = time.process_time()
            drawn = sampler.draw()
            took = time.process_time() - started
            sampler.happens(drawn)
            if number >= 3:
                times[name].append(1000 * took)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    """Time all sizes, print the table, write benchmarks/results/draw.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    console, figures, missing = Console(), dict[str, Any](), dict[str, str]()
    for size in args.rows:
        samplers = {
            "all rules": ours(size, None),
            "age limit": ours(size, max(2, size // 6400)),
            "quotas": ours(size, None, quotas=True),
            "made anew": ours(size, None, anew=True),
        }
        for name, make in (("cpprb", cpprb), ("torchrl", torchrl)):
            try:
                samplers[name] = make(size)
            except (ImportError, RuntimeError) as error:
                missing[name] = str(error)
        figures[f"{size}"] = measure(samplers, args.rounds)
    table = Table("rows", "all rules", "age limit", "quotas", "made anew", "cpprb", "torchrl")
    for size, times in figures.items():
        cells = [f"{times[name]:.2f} ms" if name in times else "-" for name in table_names(table)]
        table.add_row(f"{int(size):,}", *cells)
    console.print(table)
    for name, why in missing.items():
        console.print(f"{name} could not be run here: {why}")
    if missing:  # half of a comparison would take the place of a whole one
        console.print("nothing is written: pages compare with both")
        return
    about = {"milliseconds_for_256_draws": figures}
    console.print(f"written to {write_results('draw', about, [0], ['numpy', 'cpprb', 'torchrl'])}")


def table_names(table: Table) -> list[str]:
    """Names of the columns after the first."""
    return [str(column.header) for column in table.columns[1:]]


if __name__ == "__main__":
    main()
