"""One writer per store: an operating-system lock that dies with its holder.

The lock belongs to an open file, not to a pid written somewhere: after kill -9 the kernel
has already released it, so there is no stale lock to judge. What the file contains is only
for the message that names the owner.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from recollect.errors import StoreError, StoreFailed, StoreFull, StoreLocked, StoreReadOnly

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


_PATIENCE = 10
_A_LOOK = 0.02  # seconds, far longer than it takes
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
        self.path = _lock_file(store)
        self._acquire(store)
        while not self._is_in_place():  # somebody withdrew it before it was locked
            os.close(self._descriptor)
            self._acquire(store)
        _held.add(self)
        self._introduce()

    def _acquire(self, store: Path) -> None:
        """Open the file and lock it; StoreLocked where somebody else has."""
        self._is_new = not self.path.exists()
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise cannot_write(store, error) from error
        try:
            locked = _try_lock(self._descriptor)
            if not locked:  # by somebody who only looks (`is_held_elsewhere`), perhaps
                time.sleep(_A_LOOK)
                locked = _try_lock(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreFailed(store, f"its lock file cannot be locked ({error})") from error
        if not locked:
            os.close(self._descriptor)
            raise StoreLocked(store, self._owner())

    def _is_in_place(self) -> bool:
        """Tell whether the file that is locked is the one that others find under its name."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    @property
    def held(self) -> bool:
        """Whether this process still holds it; a forked child does not."""
        return self in _held

    def release(self) -> None:
        """Give the lock back. Releasing twice is fine."""
        if self in _held:
            _held.discard(self)
            os.close(self._descriptor)

    def withdraw(self) -> None:
        """Give the lock back and leave no file behind where there was none: it is no store."""
        if self._is_new and self in _held:
            with suppress(OSError):
                self.path.unlink()
        self.release()

    def _introduce(self) -> None:
        """Write who holds the lock, for the message others get. A full disk does not matter.

        Anybody may read it, so the command line, which may hold a password, is no part of it.
        """
        about = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        try:
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, json.dumps(about).encode())
        except OSError:
            return

    def _owner(self) -> str:
        for _ in range(_PATIENCE):
            try:
                about = json.loads(self.path.read_text(encoding="utf-8"))
                return f"process {about['pid']} on {about['host']} since {about['since']}"
            except (OSError, ValueError, KeyError, TypeError):
                time.sleep(0.01)  # it may be about to introduce itself
        return "another process"


def is_held_elsewhere(store: Path) -> bool:
    """Tell whether another process writes a store at this moment; only looks, and makes nothing."""
    path = _lock_file(store)
    if any(lock.path == path for lock in _held):
        return False
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False  # who writes has made the file, and may write it
    try:
        return not _try_lock(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _lock_file(store: Path) -> Path:
    """Beside the real file: a store reached through a link has the same lock."""
    real = store.resolve()
    return real.with_name(real.name + ".lock")


def cannot_write(store: Path, error: OSError) -> StoreError:
    """Name why a store's folder or lock file cannot be made."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(store, None)
    return StoreReadOnly(store, error.strerror or str(error))
