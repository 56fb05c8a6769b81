"""One writer per store: an operating-system lock that dies with its holder.

The lock belongs to an open file, not to a pid written somewhere: after kill -9 the kernel
has already released it, so there is no stale lock to judge. What the file contains is only
for the message that names the owner.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

from recollect.errors import StoreFailed, StoreLocked, StoreReadOnly

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        # Windows locks are mandatory: a byte far past the text keeps the text readable.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_held: set[WriterLock] = set()


def _drop_inherited() -> None:
    """Close inherited locks in a forked child, which would outlive a killed parent's."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited)


class WriterLock:
    """Held from construction until `release`; refuses at once if somebody else holds it."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ".lock")
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreReadOnly(store, error.strerror or str(error)) from error
        try:
            locked = _try_lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreFailed(store, f"its lock file cannot be locked ({error})") from error
        if not locked:
            os.close(self._descriptor)
            raise StoreLocked(store, self._owner())
        _held.add(self)
        self._introduce()

    def release(self) -> None:
        """Give the lock back. Releasing twice is fine."""
        if self in _held:
            _held.discard(self)
            os.close(self._descriptor)

    def _introduce(self) -> None:
        """Write who holds the lock, for the message others get. A full disk does not matter."""
        about = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
            "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        }
        try:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, json.dumps(about).encode())
        except OSError:
            return

    def _owner(self) -> str:
        try:
            about = json.loads(self.path.read_text(encoding="utf-8"))
            return f"process {about['pid']} on {about['host']} since {about['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
