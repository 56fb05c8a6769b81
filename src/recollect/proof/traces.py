"""What must be the same when a run is repeated, or was killed and resumed: bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from recollect.proof.killing import check_clean
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.names import is_reproducible
from recollect.train.folder import RunFolder

from recollect.proof.logical import all_rows  # isort: skip


def metrics_trace(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without readings of the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["time"]
        line.pop("seconds", None)
        line["metrics"] = {k: v for k, v in line["metrics"].items() if is_reproducible(k)}
    return lines


def checkpoint_trace(run: Path) -> dict[str, str]:
    """Digests of the files of the newest checkpoint; the manifest has their digests in it."""
    newest = max((run / "checkpoints").glob("step_*"))
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in newest.iterdir()
    } | {"name": newest.name}


def store_trace(run: Path) -> dict[str, Any]:
    """What the run wrote in its store, fenced rows aside; it must be sound as well."""
    folder = RunFolder(run)
    config = folder.load()
    name = folder.run(config)
    with open_reader(folder.store(config)) as store:
        check_clean(store)
        ids = [row.id for row in all_rows(store, Query(run=name))]
        rows = {
            row.id: (
                row.tokens.tobytes(),
                np.asarray(row.logprobs).tobytes(),
                np.asarray(row.entropies).tobytes(),
                (row.task, row.group, row.step, row.policy_version, row.reward.value, row.stop),
            )
            for row in store.get(ids)
        }
        steps = range(config.run.steps + 1)
        return {
            "rows": rows,
            "groups": [store.groups(name, step) for step in steps],
            "states": sorted(store.task_states(name), key=lambda state: state.task),
            "events": sorted(
                (e.step, json.dumps(e.data, sort_keys=True)) for e in store.events(name)
            ),
            "cursor": store.cursor(name),
            "draws": store.draws(name),
            "uses": store.uses(name),
            "scores": sorted(store.scores(name), key=lambda s: (s.step, s.trajectory)),
            "in play": sorted(
                (row.id, row.status, row.pinned, row.uses, row.last_use)
                for row in all_rows(store, Query(run=name, status=None))
            ),
        }


def trace(run: Path) -> dict[str, Any]:
    """All of it."""
    return {
        "metrics": metrics_trace(run),
        "checkpoint": checkpoint_trace(run),
        "store": store_trace(run),
    }
