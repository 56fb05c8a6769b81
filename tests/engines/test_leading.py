"""Gradients of two processes are those of one, whatever the aggregation and however uneven."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from recollect.engines.helping import help_out
from recollect.engines.leading import Leader
from recollect.engines.link import Link
from recollect.replay.pick import Pick
from recollect.train.batch import ScoredRow
from recollect.train.folder import RunFolder, create_run
from recollect.train.ranks import Work
from recollect.train.session import open_session
from train.processes import start
from train.small import collect_rows, load_small, make_config, make_model

from .processes import environment, free_port, wait

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")


def scored(model: Path, run: Path) -> list[ScoredRow]:
    """Rows of uneven lengths; every third one is a stored one with a weight."""
    config = RunFolder(run).load()
    found = []
    for number, row in enumerate(collect_rows(load_small(model), config)[:7]):
        pick = (
            Pick(number, row, row.group, "mix", 1, 0.5, "a test", 0.7) if not number % 3 else None
        )
        found.append(ScoredRow(row, (-1.0) ** number * (1 + number), True, pick))
    return found


def compare(variables: dict[str, str], model: str, runs: list[str], out: str) -> None:
    """Rank 0 writes how far its shared gradients and figures are from those it makes alone."""
    os.environ.update(variables)
    link = Link()
    if link.rank:
        help_out(link)
        link.close()
        return
    leader, found = Leader(link), []
    for run in runs:
        rows = scored(Path(model), Path(run))
        with open_session(RunFolder(Path(run)), {}, ranks=leader) as session:
            learner = session.learner
            by_token = session.config.algo.aggregation == "token-mean"
            count = sum(r.trajectory.sampled_count for r in rows) if by_token else len(rows)
            work = Work(rows, {}, float(count), stored=True)
            whole = learner.gradients(work)
            alone = [p.grad.clone() for _, p in learner.parameters if p.grad is not None]
            # Helpers must compute with our weights, not with those that they have loaded.
            with torch.no_grad():
                for _, p in learner.parameters:
                    p.add_(0.01)
            moved = learner.gradients(work)
            expected = [p.grad.clone() for _, p in learner.parameters if p.grad is not None]
            mine = leader.hand_out(work, learner.parameters)
            figures = learner.gradients(mine)
            leader.add_up(learner.parameters, figures)
            shared = [p.grad for _, p in learner.parameters if p.grad is not None]
            pairs = list(zip(shared, expected, strict=True))
            found.append(
                {
                    "mine": len(mine.rows),
                    "off": max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs),
                    "size": max(float(b.abs().max()) for _, b in pairs),
                    "moved": max(
                        float((a - b).abs().max()) for a, b in zip(alone, expected, strict=True)
                    ),
                    "loss": [figures.loss, moved.loss, whole.loss],
                    "tokens": [figures.tokens, moved.tokens],
                    "all": [figures.replayed.all_losses, moved.replayed.all_losses],
                    "rows": [
                        sorted(int(n) for part in each.replayed.rows for n in part)
                        for each in (figures, moved)
                    ],
                }
            )
    leader.end(None)
    link.close()
    Path(out).write_text(json.dumps(found))


def test_two_processes_have_the_gradient_of_one(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    kinds = [
        ("algo.aggregation=token-mean",),
        (
            "algo.aggregation=seq-mean-token-mean",
            "algo.loss=gspo",
            "algo.clip_low=3e-4",
            "algo.clip_high=4e-4",
        ),
        ("algo.aggregation=seq-mean-token-sum", "model.lora.rank=2", "algo.kl_coef=0.1"),
    ]
    runs = []
    for number, flags in enumerate(kinds):
        create_run(tmp_path / f"run{number}", make_config(model, *flags))
        runs.append(str(tmp_path / f"run{number}"))
    port, out = free_port(), tmp_path / "found.json"
    processes = [
        start(compare, environment(rank, 2, port), str(model), runs, str(out)) for rank in (0, 1)
    ]
    assert wait(processes) == [0, 0]
    for found in json.loads(out.read_text()):
        assert 0 < found["mine"] < 7, "both must have had something to do"
        assert found["size"] > 0
        assert found["moved"] > 100 * 1e-5 * found["size"]
        assert found["off"] < 1e-5, found
        shared, alone, before = found["loss"]
        assert shared == pytest.approx(alone, rel=1e-5)
        assert shared != pytest.approx(before, rel=1e-5)
        assert found["tokens"][0] == found["tokens"][1]
        assert found["all"][0] == pytest.approx(found["all"][1], rel=1e-5)
        assert found["rows"][0] == found["rows"][1]
        assert found["rows"][0]
