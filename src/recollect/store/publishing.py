"""Writing a file so that its final name never stands for half of it."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from recollect.errors import ExportFailed, WouldOverwrite


class CountingSink(io.RawIOBase):
    """Passes bytes on to a file and counts them. Closing it leaves the file open."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.written = 0

    def writable(self) -> bool:
        """Say that this can be written to."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.written

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Write all of the bytes."""
        self._file.write(data)
        self.written += len(data)
        return len(data)


@contextlib.contextmanager
def streaming(stream: BinaryIO) -> Iterator[CountingSink]:
    """Write to a stream that somebody else opened and will close."""
    try:
        yield CountingSink(stream)
        stream.flush()
    except OSError as error:
        hint = "What was written so far is incomplete."
        raise ExportFailed("the output", error.strerror or str(error), hint) from error


@contextlib.contextmanager
def publishing(target: Path, overwrite: bool) -> Iterator[CountingSink]:
    """Write to a temporary file beside the target; give it its name once it is on the disk.

    After a kill the temporary file (`.NAME.….part`) may be left behind, the target never.
    """
    _check_target(target, overwrite)
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.part")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            yield CountingSink(file)
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, target, overwrite)
        _sync_folder(target.parent)
    except OSError as error:
        raise ExportFailed(target, error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _check_target(target: Path, overwrite: bool) -> None:
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        if target.name in ("", ".", ".."):
            raise ExportFailed(target, "it is not a file name") from None
        return
    except OSError as error:
        raise ExportFailed(target, error.strerror or str(error)) from error
    except ValueError as error:  # a NUL in the name
        raise ExportFailed(repr(str(target)), f"it is not a file name ({error})") from None
    if stat.S_ISDIR(mode):
        raise ExportFailed(target, "it is a folder", "Name a file in it.")
    if not overwrite:
        raise WouldOverwrite(target)
    if not stat.S_ISREG(mode):
        # Renaming over a link or a device would replace it, not what it stands for.
        raise ExportFailed(target, "it is not a regular file", "Name the file itself.")


def _rename(temporary: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike a rename, this never replaces a file
    except FileExistsError:
        raise WouldOverwrite(target) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise WouldOverwrite(target) from None
        os.replace(temporary, target)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where folders can be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
