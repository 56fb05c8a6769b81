"""Weights cut among processes (FSDP2): the losses of whole ones, and ordinary checkpoints."""

from __future__ import annotations

import math
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recollect.config.loading import load_config
from recollect.continual.runner import create_journey
from recollect.errors import BadConfig, BadContinual
from recollect.models.loading import load_policy
from recollect.proof.traces import trace
from recollect.train.learner import Learner
from recollect.train.ranks import Work
from recollect.train.report import StepFigures
from train.processes import run_cli, start
from train.small import make_model, settings

from .processes import environment, free_port, ranked_cli, run_ranks, start_ranks, wait
from .test_launch import draws, losses, rows

pytestmark = pytest.mark.skipif(os.name == "nt", reason="forkserver is not there")

STEPS = 6
# Groups of three, so that shares are uneven; stored rows in the gradient, chosen by log-probs that
# are computed anew; an update of one row, of which the other process has nothing and takes part all
# the same; gradients that are clipped; packs of few rows, so that their numbers differ.
FLAGS = (
    f"run.steps={STEPS}",
    "run.name=run",
    "run.seed=3",
    "rollout.rows_per_task=3",
    "train.pack_tokens=120",
    "train.max_grad_norm=0.3",
    # Adam makes whole steps of gradients that are nothing but rounding, unless it is told not to.
    "train.eps=1e-3",
    "checkpoint.every=1",
    "checkpoint.keep=10",
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_rows=1",
    "draw.choice=likeliest",
    "eval.every=0",
)
KINDS = {
    "full": ("model.gradient_checkpointing=true",),
    # The reference is the model without its adapters, so that a pass has two passes in it.
    "lora": ("train.minibatches=2", "model.lora.rank=4", "algo.kl_coef=0.1"),
}
FSDP2 = "train.parallel=fsdp2"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small", layers=2)


def command(model: Path, root: Path, *flags: str) -> list[str]:
    root.mkdir(parents=True, exist_ok=True)
    (root / "small.yaml").write_text("run:\n  seed: 3\n")
    words = settings(model, *FLAGS, *flags)
    return ["train", str(root / "small.yaml"), *words, f"run.folder={root}"]


@pytest.fixture(scope="module", params=list(KINDS))
def runs(
    request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Path, Path]:
    """The kind of training, and its runs: alone, two with whole weights, two with cut ones."""
    kind: str = request.param
    root, flags = tmp_path_factory.mktemp(kind), KINDS[kind]
    log = root / "log"
    code = run_cli(log, *command(model, root / "alone", *flags), seconds=900)
    assert code == 0, log.read_text()
    run_ranks(root / "ddp.log", 2, *command(model, root / "ddp", *flags))
    run_ranks(root / "fsdp2.log", 2, *command(model, root / "fsdp2", *flags, FSDP2))
    return kind, root / "alone" / "run", root / "ddp" / "run", root / "fsdp2" / "run"


def same_to_rounding(one: Path, other: Path) -> None:
    assert rows(one) == rows(other)
    assert [d[:3] for d in draws(one)] == [d[:3] for d in draws(other)]
    assert len(losses(one)) == STEPS
    for a, b in zip(losses(one), losses(other), strict=True):
        assert math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5), (losses(one), losses(other))


def saved(run: Path, step: int) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, by file and name."""
    folder = run / "checkpoints" / f"step_{step:06d}"
    return {
        f"{file.name}:{name}": tensor
        for file in sorted(folder.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }


def test_cut_weights_give_the_losses_of_whole_ones(runs: tuple[str, Path, Path, Path]) -> None:
    _, alone, ddp, fsdp2 = runs
    assert draws(alone)
    same_to_rounding(alone, ddp)
    same_to_rounding(alone, fsdp2)


def test_a_checkpoint_is_the_ordinary_one(runs: tuple[str, Path, Path, Path]) -> None:
    kind, alone, _, fsdp2 = runs
    for step in (1, STEPS):
        mine, theirs = saved(fsdp2, step), saved(alone, step)
        assert {n: t.shape for n, t in mine.items()} == {n: t.shape for n, t in theirs.items()}
        # Adam divides by the size of a gradient: where that is nearly nothing, rounding is all.
        far = [n for n in mine if not torch.allclose(mine[n], theirs[n], rtol=1e-2, atol=1e-3)]
        assert not far
    last = fsdp2 / "checkpoints" / f"step_{STEPS:06d}"
    names = {path.name for path in last.iterdir()}
    assert names == {path.name for path in (alone / "checkpoints" / last.name).iterdir()}
    loaded = load_policy(str(last), device="cpu")
    assert loaded.has_adapter == (kind == "lora")
    assert not any(type(m).__name__.startswith("FSDP") for m in loaded.model.modules())


def begin(model: Path, root: Path, kind: str) -> Path:
    """Kill one of two processes after two steps; gives the run."""
    ranks = start_ranks(root / "log", 2, *command(model, root, *KINDS[kind], FSDP2))
    run = root / "run"
    while ranks[0].is_alive() and not (run / "checkpoints" / "step_000002").exists():
        time.sleep(0.01)
    ranks[1].kill()
    codes = wait(ranks)
    said = Path(f"{root / 'log'}.0").read_text()
    assert codes[0] == 2, (codes, said)
    assert "error: Rank 0" in said, said
    return run


def test_a_killed_run_goes_on_with_any_number_of_processes(
    model: Path, tmp_path: Path, runs: tuple[str, Path, Path, Path]
) -> None:
    kind, alone, _, fsdp2 = runs
    run = begin(model, tmp_path / "two", kind)
    for size in {"full": (1, 3), "lora": (2,)}[kind]:
        copy = tmp_path / str(size) / "run"
        shutil.copytree(run, copy)
        log = copy.parent / "log"
        if size == 1:
            assert run_cli(log, "resume", copy, seconds=900) == 0, log.read_text()
        else:
            run_ranks(log, size, "resume", copy)
        same_to_rounding(copy, alone)
        if size == 2:
            assert trace(copy) == trace(fsdp2)  # bit for bit


def broken_rank(variables: dict[str, str], log: str, words: list[str]) -> None:
    """Be a process whose second share of a gradient goes wrong."""
    real, made = Learner.gradients, []

    def gradients(self: Learner, work: Work) -> StepFigures:
        if made and variables["RANK"] == "1":
            raise ZeroDivisionError("a test")
        made.append(work)
        return real(self, work)

    Learner.gradients = gradients  # type: ignore[method-assign]
    ranked_cli(variables, log, words)


def test_a_process_that_fails_ends_all(model: Path, tmp_path: Path) -> None:
    """The leader waits for it in the middle of a pass, where it listens to nobody."""
    port, words = free_port(), command(model, tmp_path, *KINDS["lora"], FSDP2)
    ranks = [
        start(broken_rank, environment(rank, 2, port), f"{tmp_path / 'log'}.{rank}", words)
        for rank in (0, 1)
    ]
    codes = wait(ranks, 600)
    said = Path(f"{tmp_path / 'log'}.0").read_text()
    assert codes == [2, 2], (codes, said)
    assert "Rank 1 has failed: ZeroDivisionError" in said


def test_a_continual_run_needs_whole_weights(model: Path, tmp_path: Path) -> None:
    with pytest.raises(BadContinual, match="fsdp2"):
        create_journey(tmp_path / "run", load_config(None, settings(model, FSDP2)).config)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("algo.advantage=gae",), "critic"),
        (("distill.every=1", "distill.by=policy"), "distill.by = policy"),
    ],
)
def test_what_needs_whole_weights_is_refused(
    model: Path, flags: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BadConfig, match=words):
        load_config(None, settings(model, *flags, FSDP2))
    load_config(None, settings(model, *flags))
