"""Our driver against verl's own worker and our server, a whole run in one process, without Ray.

verl-env/bin/python -m pytest tests/integrations/verl/test_without_ray.py -m long
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recollect.ledger import Use
from recollect.models.catalog import TINY
from recollect.store import open_reader
from recollect.telemetry.reading import read_metrics
from recollect.train.folder import create_run
from recollect.types import RunId
from train.replays import EVERYTHING
from train.small import make_config

from .verl_processes import last_words, needs_verl, start

pytestmark = [needs_verl, pytest.mark.long, pytest.mark.timeout(3600)]
RUN = RunId("run")
STEPS = 10
SHORT = (f"run.steps={STEPS}", "environment.tasks=4", "eval.every=0", "checkpoint.every=3")
DESK = (
    f"model.name={TINY}",
    "environment.name=desk:airline",
    "environment.options.size=12",
    "environment.levels=[1,2]",
    "rollout.max_tokens=480",
    "rollout.max_turn_tokens=40",
    "train.pack_tokens=1200",
    "train.learning_rate=1e-3",
)


def uses_of(folder: Path) -> list[Use]:
    with open_reader(folder / "store.db") as store:
        assert list(store.verify()) == []
        return store.uses(RUN)


def check(folder: Path, said: dict[str, Any]) -> None:
    """What is in the ledger is what the workers were given, and it was learnt from."""
    uses = uses_of(folder)
    assert uses, "nothing was replayed"
    with open_reader(folder / "store.db") as store:
        draws = {(d.step, d.slot): d for s in range(STEPS + 1) for d in store.draws(RUN, s)}
        rows = {row.id: row for row in store.get([use.trajectory for use in uses])}
    for use in uses:
        draw, row = draws[use.step, use.slot], rows[use.trajectory]
        assert draw.trajectory == use.trajectory
        assert row.step < use.step
        assert draw.age > 0
    # A row trains once as a fresh one, if it has signal, and then once for each use.
    trained = Counter(name for names in said["trained"] for name in names)
    used = Counter(use.trajectory for use in uses for _ in range(use.epochs))
    assert all(trained[name] - count in (0, 1) for name, count in used.items())
    assert all(count == 1 for name, count in trained.items() if name not in used)
    steps = read_metrics(folder).steps
    assert [step.step for step in steps] == list(range(1, STEPS + 1))
    gaps = [step.metrics.get("policy/logprob_diff") for step in steps]
    assert max(gap for gap in gaps if gap is not None) < 1e-4, "servers and workers disagree"
    assert said["metrics"][0]["actor/on_policy/ratio_std"] < 1e-5
    assert max(told["actor/off_policy/ratio_std"] for told in said["metrics"]) > 1e-4
    assert all(move > 0 for move in said["moves"][1:]), "rollout weights change with every version"


@pytest.mark.parametrize("flags", [(), DESK], ids=["letters", "desk"])
def test_ten_steps_with_replay(flags: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    config = make_config(model, *SHORT, *EVERYTHING, *flags)
    folder = create_run(tmp_path / "run", config).path
    codes = start("driver_process.py", folder, tmp_path, 1)
    assert codes == [0], last_words(tmp_path, 1)
    said = json.loads((tmp_path / "said.json").read_text())
    check(folder, said)
    with open_reader(folder / "store.db") as store:
        cursor = store.cursor(RUN)
    assert cursor is not None
    assert cursor.policy_version == len(said["trained"])


def test_killed_and_resumed_as_if_nothing_had_happened(model: Path, tmp_path: Path) -> None:
    config = make_config(model, *SHORT, *EVERYTHING)
    whole = create_run(tmp_path / "a" / "run", config).path
    cut = create_run(tmp_path / "b" / "run", config).path
    assert start("driver_process.py", whole, whole.parent, 1) == [0], last_words(whole.parent, 1)
    assert start("driver_process.py", cut, cut.parent, 1, "5") == [-signal.SIGKILL]
    assert start("driver_process.py", cut, cut.parent, 1) == [0], last_words(cut.parent, 1)
    with open_reader(whole / "store.db") as one, open_reader(cut / "store.db") as other:
        for step in range(1, STEPS + 1):
            assert other.draws(RUN, step) == one.draws(RUN, step)
    assert [(u.step, u.slot, u.trajectory) for u in uses_of(cut)] == [
        (u.step, u.slot, u.trajectory) for u in uses_of(whole)
    ]
