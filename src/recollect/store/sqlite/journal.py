"""Which journal mode is safe here.

SQLite 3.7.0 to 3.51.2 can drop a committed transaction when two connections write or
checkpoint a WAL database at the same instant (the "WAL-reset" race; fixed in 3.51.3, with
backports 3.44.6 and 3.50.7). One writer under a lock should never meet it, but a promise
about other people's data does not rest on "should": where the linked SQLite is affected, or
the folder is on a network file system, the store uses a rollback journal.

The fallback is TRUNCATE, not DELETE: with synchronous=FULL, TRUNCATE flushes the journal's
end before a commit returns, while DELETE leaves the removal of the journal to the file
system, so that a power cut could bring it back and undo an acknowledged commit.
"""

from __future__ import annotations

import re
from pathlib import Path

_FIXED = (3, 51, 3)
_BACKPORTS = {(3, 44): 6, (3, 50): 7}
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "lustre", "ceph", "glusterfs"}
_NETWORK |= {"beegfs", "gpfs"}
_ESCAPE = re.compile(r"\\([0-7]{3})")  # how the kernel writes a space, a tab or a backslash

Version = tuple[int, int, int]


def wal_is_safe(version: Version) -> bool:
    """Tell whether this SQLite version is free of the WAL-reset race."""
    backport = _BACKPORTS.get(version[:2])
    return version >= _FIXED or (backport is not None and version[2] >= backport)


def choose_journal(version: Version, folder: Path) -> str:
    """Return the journal mode for a store in this folder: "wal" or "truncate"."""
    kind = file_system(folder)
    is_remote = kind in _NETWORK or kind.startswith("fuse.")
    return "wal" if wal_is_safe(version) and not is_remote else "truncate"


def file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """Name the type of file system that holds a folder; empty where that cannot be told."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    where = folder.resolve()
    best, kind = -1, ""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        mount = Path(_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1]))
        # Of two mounts in one place the later hides the earlier (autofs, then nfs).
        if (where == mount or mount in where.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), fields[2]
    return kind
