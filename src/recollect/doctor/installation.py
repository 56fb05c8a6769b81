"""What this installation can do: Python, packages, SQLite, and the disk that a store would use."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median

from recollect import __version__
from recollect.doctor.footprint import free_bytes, machine_memory
from recollect.envs.tau2.package import installed_version
from recollect.errors import MissingTau2
from recollect.errors.extras import install_command
from recollect.store.sqlite.journal import choose_journal, file_system, wal_is_safe

_OLDEST_PYTHON = (3, 10)
_OLDEST_SQLITE = (3, 35, 0)
_LITTLE = 1_000_000_000  # bytes free
_SLOW = 0.05  # seconds for one flush: a step makes a few
_TOO_FAST = 2e-5  # no disk answers so soon
_FLUSHES = 20
_INTERNAL = ("dev", "bench")  # extras for those who work on Recollect
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+).*extra\s*==\s*[\"']([^\"']+)[\"']")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: `ok` False is a finding, None is optional and not there."""

    name: str
    ok: bool | None
    found: str
    hint: str = ""


def check_installation(folder: Path) -> list[Check]:
    """Look at everything a run needs; the disk of `folder` is tried and left as it was."""
    return [
        _python(),
        Check("recollect", True, __version__),
        *_extras(),
        _tau2(),
        *_torch(),
        _memory(),
        _sqlite(folder),
        *_disk(folder),
    ]


def _python() -> Check:
    version = sys.version_info[:3]
    found = f"{'.'.join(map(str, version))} on {platform.system()} {platform.machine()}"
    return Check("python", version >= _OLDEST_PYTHON, found, "Recollect needs Python 3.10 or newer")


def _extras() -> list[Check]:
    """Name what is missing of each extra, as the installed package declares them."""
    try:
        declared = metadata.requires("recollect") or []
    except metadata.PackageNotFoundError:
        hint = "Install Recollect itself: pip install . in the folder of its repository"
        return [Check("extras", False, "recollect is not installed as a package", hint)]
    wanted: dict[str, list[str]] = {}
    for text in declared:
        match = _REQUIREMENT.match(text)
        if match and match[2] not in _INTERNAL:
            wanted.setdefault(match[2], []).append(match[1])
    return [_extra(name, packages) for name, packages in sorted(wanted.items())]


def _extra(name: str, packages: list[str]) -> Check:
    missing = [package for package in packages if _version(package) is None]
    if not missing:
        found = ", ".join(f"{package} {_version(package)}" for package in packages)
        return Check(f"extra {name}", True, found)
    # Without these there is no training at all; the others are for those who want them.
    needed = name == "train"
    ok = False if needed else None
    return Check(f"extra {name}", ok, f"no {', '.join(missing)}", install_command(name))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _tau2() -> Check:
    """Look for tau2-bench, which is no extra: it is in no registry."""
    try:
        found = installed_version()
    except MissingTau2 as error:
        return Check("tau2-bench", None, "another package has its name", error.hint)
    if found is None:
        return Check("tau2-bench", None, "not installed", MissingTau2("").hint)
    return Check("tau2-bench", True, found)


def _torch() -> list[Check]:
    """Say how torch would compute; nothing where it is not installed."""
    if _version("torch") is None:
        return []
    try:
        import torch
    except (ImportError, OSError) as error:
        hint = "Install it anew: pip install --force-reinstall torch"
        return [Check("torch", False, f"cannot be imported ({error})", hint)]
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    where = "CUDA" if torch.cuda.is_available() else "CPU only"
    small = " (a small model takes one, unless model.threads says otherwise)" if threads > 1 else ""
    return [
        Check("torch", True, f"{torch.__version__}, {where}"),
        Check("threads", True, f"{threads} of {cores} cores{small}"),
    ]


def _memory() -> Check:
    there = machine_memory()
    return Check("memory", True, "unknown" if there is None else f"{there / 1e9:.1f} GB")


def _sqlite(folder: Path) -> Check:
    version = sqlite3.sqlite_version_info
    journal = choose_journal((version[0], version[1], version[2]), folder)
    kind = file_system(folder) or "a file system of unknown kind"
    why = "" if journal == "wal" else f" ({kind} is remote)"
    if not wal_is_safe((version[0], version[1], version[2])):
        why = " (this version can lose commits in WAL mode, so it is not used)"
    found = f"{sqlite3.sqlite_version}, journal {journal}{why}"
    hint = "Use a Python that is linked with a newer SQLite"
    return Check("sqlite", version >= _OLDEST_SQLITE, found, hint)


def _disk(folder: Path) -> list[Check]:
    """Write, flush and remove a small file, again and again."""
    free = free_bytes(folder)
    kind = file_system(folder) or "unknown"
    room = Check(
        "free space",
        free > _LITTLE,
        f"{free / 1e9:.1f} GB in {folder} ({kind})",
        "Make room, or set run.folder to another disk",
    )
    try:
        seconds = flush_seconds(folder)
    except OSError as error:
        hint = "Choose a folder that can be written: --folder PATH, and run.folder in training"
        return [room, Check("flush", False, f"{folder}: {error.strerror or error}", hint)]
    found, hint = f"{1000 * seconds:.2f} ms for 4 kB to be durable (median of {_FLUSHES})", ""
    if seconds > _SLOW:
        hint = "Every step waits for a few flushes: set store.path to a faster disk"
    elif seconds < _TOO_FAST:
        hint = "No disk is so fast: memory, or flushes that are not carried out. Nothing here "
        hint += "would survive a power cut"
    return [room, Check("flush", not hint, found, hint)]


def flush_seconds(folder: Path, clock: Callable[[], float] = time.perf_counter) -> float:
    """Median seconds for 4 kB to be flushed to the disk of a folder."""
    took = []
    with tempfile.TemporaryFile(dir=folder, prefix=".recollect-") as file:
        for _ in range(_FLUSHES):
            started = clock()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            took.append(clock() - started)
    return median(took)
