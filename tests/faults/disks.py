"""Small disks to fill up and to pull the plug on: a tmpfs of our own, unmounted in the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a tmpfs of this size on a folder, which needs to be root; skips loudly otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        unmount(folder)


def mount(*arguments: str) -> None:
    """Run mount; a test that cannot have its disk says so instead of passing."""
    if shutil.which("mount") is None:
        pytest.skip("NOT TESTED: there is no mount command here")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: cannot mount a disk of our own ({done.stderr.strip()})")


def unmount(folder: Path) -> None:
    """Unmount, waiting a little for whoever is still looking."""
    for _ in range(50):
        done = subprocess.run(["umount", str(folder)], capture_output=True, check=False)
        if done.returncode == 0:
            return
        time.sleep(0.05)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def free_bytes(folder: Path) -> int:
    """How much room is left."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def fill(folder: Path, leave: int) -> Path:
    """Put a file on a disk that leaves so many bytes free; removing it frees them again."""
    ballast = folder / "ballast"
    with ballast.open("wb") as file:
        size = free_bytes(folder) - leave
        if size > 0:
            os.posix_fallocate(file.fileno(), 0, size)
    return ballast


def again_as_root_of_a_namespace(test: str) -> None:
    """Run one test again where we may mount: in a user namespace of its own, if there are any.

    For those who are not root. Skips loudly where the system does not allow it.
    """
    if os.geteuid() == 0 or os.environ.get("RECOLLECT_IN_NAMESPACE"):
        return
    if shutil.which("unshare") is None:
        pytest.skip("NOT TESTED: not root, and there is no unshare command here")
    command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-s", test]
    environment = {**os.environ, "RECOLLECT_IN_NAMESPACE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr or "cannot" in done.stderr:
        pytest.skip(f"NOT TESTED: not root, and {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout
    pytest.skip("tested in a namespace of its own")
