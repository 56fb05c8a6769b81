"""A folder with all that the pages take for granted: runs, files of yours, stores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from cli.conftest import invoke
from recollect.train.checkpoint import last_saved_step

from .pages import ROOT

# The built-in model, and as little work as goes through everything.
QUICK = (
    "run.steps=2", "rollout.tasks_per_step=2", "rollout.rows_per_task=4", "rollout.batch_rows=8",
    "eval.every=2", "eval.tasks=3", "checkpoint.every=1", "replay.start_rows=1",
)  # fmt: skip
TINY_DESK = ("environment.options.size=20", "environment.tasks=6")

_TRACE = {
    "version": 1,
    "id": "trace-1",
    "task": {"type": "T", "data": {}, "key": "k-1"},
    "agent": {},
    "nodes": [
        {"message": {"role": "user", "content": "Go"}, "token_ids": [3], "parent": None,
         "mask": [False]},
        {"message": {"role": "assistant", "content": "CRANE"}, "token_ids": [10, 11], "parent": 0,
         "mask": [True, True], "logprobs": [-0.25, -1.0]},
    ],
    "rewards": {"won": {"score": 1.0, "weight": 1.0}},
}  # fmt: skip


def run(*words: str, codes: tuple[int, ...] = (0,)) -> Any:
    """Run a command of ours in this process and in the current folder; it must succeed."""
    result = invoke(*words, input="")
    assert result.exit_code in codes, f"{' '.join(words)}\n{result.output}"
    return result


def furnish(folder: Path) -> None:
    """Make the folder; the current one must be it."""
    _files(folder)
    run("train", "demo", *QUICK, *TINY_DESK)
    runs = folder / "runs"
    run("notes", "add", "Look it up first.", "--when", "cancel a booking", "--store", "runs/demo-1")
    run("notes", "add", "Say the fee.", "--when", "move a flight", "--store", "runs/demo-1")
    for name in ("demo", "a", "my-1", "demo-2"):
        shutil.copytree(runs / "demo-1", runs / name)
    # As if it had been killed in its last step.
    saved = runs / "demo-2" / "checkpoints"
    shutil.rmtree(saved / f"step_{last_saved_step(saved):06}")
    flags = (*QUICK, *TINY_DESK, "run.steps=1", "model.lora.rank=2", "run.name=mine-1")
    run("train", "demo", *flags)
    for method in ("sequential", "replay"):
        more = (f"continual.method={method}", f"run.name={method}-1", *TINY_DESK, "eval.tasks=1")
        run("continual", "domains", *QUICK, "run.steps=1", *more)
    shutil.copytree(runs / "sequential-1", runs / "domains-1")
    shutil.copytree(runs / "replay-1", runs / "domains-2")
    for name in ("recollect.db", "pool.db", "bank.db"):
        shutil.copy(runs / "demo-1" / "store.db", folder / name)
    run("pool", "export", "chats.jsonl", "--format", "messages")
    run("notes", "export", "theirs.jsonl")


def _files(folder: Path) -> None:
    for name in ("examples", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("my.yaml", "mine.yaml"):
        (folder / name).write_text("preset: demo\n")
    (folder / "lesson.txt").write_text("Refunds take a week. Say so.\n")
    lines = [
        json.dumps({"prompt": f"What is {a}+{b}?", "answer": str(a + b)})
        for a in range(1, 8)
        for b in range(1, 8)
    ]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
    for name in ("exact", "judge"):
        reward = f"def {name}(text, fields):\n    return float(text.strip() == fields['answer'])\n"
        (folder / ("rewards.py" if name == "exact" else "judge.py")).write_text(reward)
    (folder / "rollouts").mkdir()
    attempt = {"input": "2 + 2?", "output": "4", "score": 1.0, "step": 5}
    (folder / "rollouts" / "5.jsonl").write_text(json.dumps(attempt) + "\n")
    (folder / "traces.jsonl").write_text(json.dumps(_TRACE) + "\n")
