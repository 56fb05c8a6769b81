"""Memory and disk: what a run takes, and whether what is left will do."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from recollect.doctor.finding import Change, Evidence, Finding, change
from recollect.doctor.history import History, of_steps, values

_TIGHT = 0.85  # of the memory there is


def memory_findings(history: History) -> Iterator[Finding]:
    """Yield what will not fit."""
    yield from _memory(history)
    yield from _disk(history)


def machine_memory() -> int | None:
    """Bytes of memory that this process may use: the machine's, or its container's if less.

    None where the system does not tell.
    """
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            found = min(found, int(text))
    return found


def free_bytes(folder: Path) -> int:
    """Bytes that are free on the disk of a folder, or of the nearest one above that exists."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _memory(history: History) -> Iterator[Finding]:
    used = max(values(history.steps, "perf/peak_memory"), default=0.0)
    there = machine_memory()
    if there is None or used <= _TIGHT * there:
        return
    yield Finding(
        "memory",
        "memory_is_tight",
        f"The run took {used / 1e9:.1f} GB of {there / 1e9:.1f} GB of memory.",
        (
            of_steps("perf/peak_memory, largest", used, history.steps),
            Evidence("memory of this machine, bytes", float(there)),
        ),
        tuple(smaller(history)),
    )


def smaller(history: History) -> list[Change]:
    """What takes less memory, the most effective first."""
    config = history.config
    found = []
    pack = max(config.rollout.max_tokens, config.train.pack_tokens // 2)
    if pack < config.train.pack_tokens:
        text = "fewer tokens go through the model at a time in training"
        found.append(change(config, "train.pack_tokens", pack, text))
    rows = max(config.rollout.rows_per_task, config.rollout.batch_rows // 2)
    if rows < config.rollout.batch_rows:
        text = "fewer rows are generated at a time"
        found.append(change(config, "rollout.batch_rows", rows, text))
    if not config.model.gradient_checkpointing:
        text = "activations are computed twice instead of kept"
        found.append(change(config, "model.gradient_checkpointing", True, text))
    return found


def _disk(history: History) -> Iterator[Finding]:
    """Foresee the store's size at the last step from what the steps so far came to."""
    snapshot, config = history.snapshot, history.config
    left = config.run.steps - history.done
    store = history.folder.store(config)
    if snapshot is None or not left or not snapshot.step or not isinstance(store, Path):
        return  # nothing is known of a server's disk
    each = snapshot.own_bytes / snapshot.step
    free = free_bytes(store.parent)
    if each * left <= free:
        return
    changes = []
    if not config.store.compress:
        text = "smaller frames, for more time; needs the extra zstd"
        changes.append(change(config, "store.compress", True, text))
    yield Finding(
        "memory",
        "disk_will_be_full",
        f"The run's rollouts take {each / 1e6:.1f} MB a step: {left} more steps need "
        f"{each * left / 1e9:.2f} GB, {free / 1e9:.2f} GB are free. "
        f"Make room, or: recollect pool prune --max-rows N --yes --compact --store "
        f"{shlex.quote(str(store))}",
        (
            Evidence("bytes of the run's own rollouts", snapshot.own_bytes, snapshot.step),
            Evidence("bytes free", float(free)),
        ),
        tuple(changes),
    )
