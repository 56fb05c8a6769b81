"""A finished run under verl: its ledger held against what workers and servers wrote down."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from recollect.integrations.verl.journal import FILE_NAME
from recollect.ledger import Draw, Use
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.reading import read_metrics
from recollect.types import RunId


def lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def ledger(folder: Path, run: RunId) -> tuple[list[Use], dict[tuple[int, int], Draw]]:
    """Read all uses and draws of a run whose store is whole."""
    with open_reader(folder / "store.db") as store:
        assert list(store.verify()) == []
        uses = store.uses(run)
        last = max((use.step for use in uses), default=0)
        draws = {(d.step, d.slot): d for s in range(last + 1) for d in store.draws(run, s)}
    return uses, draws


def check_run(folder: Path, run: RunId, steps: int, servers: int) -> None:
    """What a run must show: the ledger is what trained, ratios and weights move as they should."""
    updates = lines(folder / "verl" / FILE_NAME)
    with open_reader(folder / "store.db") as store:
        cursor = store.cursor(run)
        assert store.count(Query(run=run)) > 0
    assert cursor is not None
    assert cursor.step == steps
    # Every version was made once: nothing is missing, nothing was applied twice.
    assert [u["version"] for u in updates] == list(range(1, cursor.policy_version + 1))
    assert sorted({u["step"] for u in updates}) == list(range(1, steps + 1))
    begun = {u["step"]: u["version"] - 1 for u in reversed(updates)}
    _check_uses(folder, run, updates, begun)
    _check_ratios(folder, updates, steps)
    for server in range(servers):
        _check_weights(lines(folder / "verl" / f"weights-{server}.jsonl"), begun)


def _check_uses(
    folder: Path, run: RunId, updates: list[dict[str, Any]], begun: dict[int, int]
) -> None:
    """Uses and ages in the ledger are those of the rows that workers were given."""
    uses, draws = ledger(folder, run)
    assert len({draws[use.step, use.slot].group for use in uses}) > 1, "no groups were replayed"
    assert len({(use.step, use.slot) for use in uses}) == len(uses)
    told: dict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
    for use in uses:
        draw = draws[use.step, use.slot]
        assert draw.trajectory == use.trajectory
        told[use.step][use.trajectory, draw.age] += use.epochs
    trained: dict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
    fresh: Counter[str] = Counter()
    for update in updates:
        step = update["step"]
        for row in update["rows"]:
            age = begun[step] - row["version"]
            if row["weight"] is None:
                assert age == 0, "a row of another version passed for fresh"
                fresh[row["id"]] += 1
            else:
                assert age > 0
                trained[step][row["id"], age] += 1
    assert trained == told
    assert fresh
    assert set(fresh.values()) == {1}, "one epoch: a fresh row trains once"


def _check_ratios(folder: Path, updates: list[dict[str, Any]], steps: int) -> None:
    """Ratios are 1 before the first update; those of stored rows are not, later on."""
    first, later = updates[0]["workers"], updates[1:]
    assert first["actor/on_policy/ratio_std"] < 1e-5
    assert abs(first["actor/on_policy/ratio_mean"] - 1) < 1e-5
    assert first["actor/off_policy/ratio_std"] == 0, "nothing is stored before the first step"
    stored = [u for u in later if any(row["weight"] is not None for row in u["rows"])]
    assert all(u["workers"]["actor/off_policy/ratio_std"] > 1e-5 for u in stored)
    metrics = read_metrics(folder).steps
    assert [step.step for step in metrics] == list(range(1, steps + 1))
    # Before a step's first update: what servers recorded against what workers compute.
    gaps = [step.metrics.get("policy/logprob_diff") for step in metrics]
    known = [gap for gap in gaps if gap is not None]
    assert len(known) > 1
    assert max(known) < 1e-4, "servers and workers disagree"


def _check_weights(loads: list[dict[str, Any]], begun: dict[int, int]) -> None:
    """A server had new weights at each step, and those of the step's version."""
    assert set(begun.values()) <= {load["version"] for load in loads}
    assert len(set(begun.values())) == len(begun)
    for before, after in pairwise(loads):
        # Else a server was started again, with an earlier version or the one it had.
        if after["version"] > before["version"]:
            assert after["change"] > 0
