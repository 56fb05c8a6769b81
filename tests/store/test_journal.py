"""The version gate of WAL mode, with versions and mount tables as they could be."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from recollect.store.sqlite import SqliteStore, writer
from recollect.store.sqlite import journal as journal_module
from recollect.store.sqlite.journal import Version, choose_journal, file_system, wal_is_safe

SAFE: Version = (3, 51, 3)
MOUNTS = """\
rootfs / rootfs rw 0 0
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
auto /net autofs rw 0 0
server:/data /net nfs4 rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
tool /mnt/tab\\011and\\134slash fuse.juicefs rw 0 0
short line
"""


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 7, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 44, 9), True),
        ((3, 45, 9), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((3, 53, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_version_gate(version: Version, safe: bool, tmp_path: Path) -> None:
    assert wal_is_safe(version) is safe
    assert choose_journal(version, tmp_path) == ("wal" if safe else "truncate")


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/var/pool", "ext4"),
        ("/home/me", "nfs4"),
        ("/home", "nfs4"),
        ("/homely", "ext4"),
        ("/home/local/x", "xfs"),
        ("/net/data", "nfs4"),  # autofs lies below it, at the same place
        ("/mnt/my share/x", "cifs"),
        ("/mnt/tab\tand\\slash/x", "fuse.juicefs"),
    ],
)
def test_the_innermost_newest_mount_counts(folder: str, kind: str, tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(MOUNTS)
    assert file_system(Path(folder), table) == kind


def test_without_a_mount_table_nothing_is_known(tmp_path: Path) -> None:
    assert file_system(tmp_path, tmp_path / "missing") == ""


@pytest.mark.parametrize(
    ("kind", "journal"),
    [
        *(("ext4", "wal"), ("xfs", "wal"), ("tmpfs", "wal"), ("overlay", "wal"), ("", "wal")),
        *((kind, "truncate") for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "ceph")),
        *((kind, "truncate") for kind in ("fuse.sshfs", "fuse.gcsfuse", "fuse.something")),
    ],
)
def test_no_wal_on_a_network_file_system(
    kind: str, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "file_system", lambda _: kind)
    assert choose_journal(SAFE, tmp_path) == journal
    assert choose_journal((3, 40, 1), tmp_path) == "truncate"


@pytest.mark.parametrize(("version", "journal"), [((3, 40, 1), "truncate"), (SAFE, "wal")])
def test_the_store_asks_the_gate(
    version: Version, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_VERSION", version)
    with SqliteStore(tmp_path / "pool.db") as store:
        assert store.stats().journal == journal


def test_the_folder_of_the_real_file_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link on a local disk may point to a store on a network file system."""
    asked: list[Path] = []

    def remember(version: Version, folder: Path) -> str:
        asked.append(folder)
        return "truncate"

    (tmp_path / "far").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "far" / "pool.db")
    monkeypatch.setattr(writer, "choose_journal", remember)
    SqliteStore(tmp_path / "link.db").close()
    assert asked == [tmp_path / "far"]


def test_the_linked_version_is_the_one_that_is_judged() -> None:
    assert sqlite3.sqlite_version_info == writer._VERSION
