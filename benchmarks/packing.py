"""What does a common beginning cost once instead of every time? Updates on stored rows, three ways.

    python benchmarks/packing.py

Rows of the service desks, as a buffer draws them: 32 at random out of 160, of all domains and many
tasks. Their gradient is computed **apart** (every row reads its own prompt), **by task** (rows of
one task share their prompt) and as a **tree**, which is what training does: rows of one domain
share its rules as well, and rows of one task what they said alike. With the desks' own rules of
about a hundred tokens, and with rules eight times as long. Processor seconds, the ways in turns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM

from recollect.models.attention import ATTENTION, packed
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.train.packing import Pack, pack
from recollect.train.scorer import log_distributions, of_targets
from recollect.trajectory import Trajectory
from results_file import spread, write_results
from side_by_side import make_model

SEED = 0
DRAWS, ROWS = 5, 32
PACK_TOKENS = 4096
LONGER = 8


def load(name: str, folder: Path) -> Any:
    """Load a model as training does, in float32."""
    return AutoModelForCausalLM.from_pretrained(
        make_model(name, folder), attn_implementation=ATTENTION
    )


def stored_rows(folder: Path) -> list[Trajectory]:
    """Let the demo's agent make 160 attempts, and read them from its store."""
    settings = ("replay.modes=[]", "run.steps=5", "eval.every=0", "checkpoint.every=0")
    place = (f"run.folder={folder}", "run.name=rows", f"run.seed={SEED}")
    command = (sys.executable, "-m", "recollect", "train", "demo", *settings, *place)
    subprocess.run(command, check=True, capture_output=True)
    with open_reader(folder / "rows" / "store.db") as reader:
        return list(reader.get([row.id for row in reader.rows(Query(), limit=1000).rows]))


def with_longer_rules(row: Trajectory) -> Trajectory:
    """Repeat a row's first segment, the rules of its domain."""
    rules, *others = row.segments
    more = (LONGER - 1) * (rules.end - rules.start)
    beginning = np.tile(row.tokens[: rules.end], LONGER)
    return replace(
        row,
        tokens=np.concatenate((beginning, row.tokens[rules.end :])),
        sampled=np.concatenate((np.zeros(more, bool), row.sampled)),
        segments=(
            replace(rules, end=rules.end + more),
            *(replace(each, start=each.start + more, end=each.end + more) for each in others),
        ),
    )


def apart(rows: Sequence[Trajectory]) -> list[Pack]:
    """Pack rows that share nothing."""
    return pack(rows, PACK_TOKENS, share=False)


def by_task(rows: Sequence[Trajectory]) -> list[Pack]:
    """Pack the rows of each task by themselves: they share its prompt."""
    tasks: dict[str, list[Trajectory]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    return [each for own in tasks.values() for each in pack(own, PACK_TOKENS)]


def tree(rows: Sequence[Trajectory]) -> list[Pack]:
    """Pack rows as training does."""
    return pack(rows, PACK_TOKENS)


WAYS: dict[str, Callable[[Sequence[Trajectory]], list[Pack]]] = {
    "apart": apart,
    "by task": by_task,
    "tree": tree,
}


def seconds_of(model: Any, packs: Sequence[Pack]) -> float:
    """Processor seconds of a forward and a backward pass over all packs."""
    started = time.process_time()
    for each in packs:
        with packed(each.spans):
            of_targets(log_distributions(model, each, 1.0), each).sum().backward()
    return time.process_time() - started


def measure(model: Any, rows: Sequence[Trajectory]) -> dict[str, Any]:
    """Tokens and seconds of the three ways over the same draws."""
    rng = np.random.default_rng(SEED)
    found: dict[str, dict[str, list[float]]] = {w: {"tokens": [], "seconds": []} for w in WAYS}
    for draw in range(DRAWS + 1):
        chosen = [rows[n] for n in rng.choice(len(rows), ROWS, replace=False)]
        for way, how in WAYS.items():
            packs = how(chosen)
            seconds = seconds_of(model, packs)
            if draw:  # the first one warms up
                found[way]["tokens"].append(sum(each.tokens for each in packs))
                found[way]["seconds"].append(seconds)
    figures: dict[str, Any] = {
        way: {name: spread(values) for name, values in each.items()} for way, each in found.items()
    }
    for way in ("apart", "by task"):
        pairs = zip(found[way]["seconds"], found["tree"]["seconds"], strict=True)
        figures[f"{way} / tree"] = spread([slow / fast for slow, fast in pairs])
    return figures


def main() -> None:
    """Measure all cases, print the table, write benchmarks/results/packing.json."""
    console, figures = Console(), dict[str, Any]()
    table = Table("model", "rules", "way", "tokens", "seconds", "this / tree")
    with tempfile.TemporaryDirectory(prefix="recollect-packing-") as folder:
        rows = stored_rows(Path(folder))
        longer = [with_longer_rules(row) for row in rows]
        models = {name: load(name, Path(folder)) for name in ("tiny", "30M")}
        cases = {
            ("tiny", "as they are"): rows,
            ("tiny", f"{LONGER} times as long"): longer,
            ("30M", "as they are"): rows,
        }
        for (name, rules), chosen in cases.items():
            figures[f"{name}, rules {rules}"] = found = measure(models[name], chosen)
            for way in WAYS:
                ratio = found.get(f"{way} / tree")
                table.add_row(
                    name, rules, way, f"{found[way]['tokens']['median']:,.0f}",
                    f"{found[way]['seconds']['median']:.3f}",
                    f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})"
                    if ratio else "1",
                )  # fmt: skip
    console.print(table)
    path = write_results("packing", figures, [SEED], ["torch", "transformers", "numpy"])
    console.print(f"written to {path}")


if __name__ == "__main__":
    main()
