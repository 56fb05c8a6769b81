"""Exporting: whole files or none, and every row that is left out is named."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import BadQuery, ExportFailed, StoreError, WouldOverwrite
from recollect.store import open_reader, open_store, outgoing, publishing
from recollect.store.exporting import FORMATS, ExportReport, Skipped, export_file
from recollect.store.importing import import_file
from recollect.store.records import Batch, Query
from recollect.types import Origin

from . import import_factories as make

LIVE = Query()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with open_store(tmp_path / "store.db") as opened:
        make.fill(opened)
        yield opened


def ids_in(path: Path) -> list[str]:
    rows = map(json.loads, path.read_bytes().splitlines())
    return [row["id"] for row in rows if row.get("type") == "trajectory"]


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("format_", FORMATS)
def test_file_and_stream_get_the_same(tmp_path: Path, store: Any, format_: str) -> None:
    stream = BytesIO()
    streamed = export_file(store, None, stream=stream, format=format_, query=LIVE)
    filed = export_file(store, tmp_path / "out", format=format_, query=LIVE)
    data = (tmp_path / "out").read_bytes()
    assert data == stream.getvalue()
    assert filed == streamed == ExportReport(len(make.rows()), len(data), (), 0)
    assert not stream.closed
    assert leftovers(tmp_path) == []


def test_only_what_matches_is_exported(tmp_path: Path, store: Any) -> None:
    export_file(store, tmp_path / "demos", format="jsonl", query=Query(origin=Origin.DEMO))
    assert ids_in(tmp_path / "demos") == [make.demo().id, make.tokenised_demo().id]
    report = export_file(store, tmp_path / "none", format="messages", query=Query(domain="x"))
    assert report == ExportReport(0, 0, (), 0)


def test_pages_and_blocks_give_the_same_file(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_file(store, tmp_path / "one", format="jsonl", query=LIVE)
    monkeypatch.setattr(outgoing, "_PAGE", 4)
    monkeypatch.setattr(outgoing, "_BLOCK_BYTES", 1500)
    monkeypatch.setattr(outgoing, "_REMEMBERED", 1)
    export_file(store, tmp_path / "two", format="jsonl", query=LIVE)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_rows_that_arrive_meanwhile_do_not_disturb(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is its own transaction: the writer goes on, rows come and go."""
    monkeypatch.setattr(outgoing, "_PAGE", 2)

    class Busy(BytesIO):
        written = 0

        def write(self, data: Any) -> int:
            self.written += 1
            if self.written == 8:
                store.commit(Batch(trajectories=[make.fresh(50)]))
                store.fence(make.RUN.id, 1, "resumed")
            return super().write(data)

    stream = Busy()
    with open_reader(tmp_path / "store.db") as reader:
        report = export_file(reader, None, stream=stream, format="jsonl", query=LIVE)
    ids = [json.loads(line).get("id") for line in stream.getvalue().splitlines()]
    assert len(ids) == len(set(ids)) + ids.count(None) - 1
    assert report.rows + report.skipped_total <= len(make.rows()) + 1
    assert all("removed while" in skipped.reason for skipped in report.skipped)


# -- damage -------------------------------------------------------------------------------------


def hurt(path: Path, *numbers: int) -> None:
    connection = sqlite3.connect(path)
    for number in numbers:
        (frame,) = connection.execute(
            "SELECT frame FROM payloads WHERE seq = ?", [number]
        ).fetchone()
        broken = bytearray(frame)
        broken[-1] ^= 1
        connection.execute("UPDATE payloads SET frame = ? WHERE seq = ?", [bytes(broken), number])
    connection.commit()
    connection.close()


@pytest.mark.parametrize("as_writer", [False, True])
@pytest.mark.parametrize("format_", FORMATS)
def test_damaged_rows_are_left_out_by_name(tmp_path: Path, format_: str, as_writer: bool) -> None:
    with open_store(tmp_path / "store.db") as store:
        make.fill(store)
    hurt(tmp_path / "store.db", 2, 3, 11)
    opened = open_store if as_writer else open_reader
    with opened(tmp_path / "store.db") as reader:
        report = export_file(reader, tmp_path / "out", format=format_, query=LIVE)
    assert report.rows == len(make.rows()) - 3
    assert report.skipped_total == 3
    reason = "its stored bytes fail their checksum"
    assert report.skipped == tuple(Skipped(make.fresh(n).id, reason) for n in (1, 2, 10))
    with open_store(tmp_path / "other.db") as other:
        assert import_file(other, tmp_path / "out").added == report.rows


def test_many_damaged_rows_are_counted(tmp_path: Path) -> None:
    rows = [make.fresh(n) for n in range(130)]
    with open_store(tmp_path / "store.db") as store:
        make.fill(store, rows)
    hurt(tmp_path / "store.db", *range(5, 125))
    with open_reader(tmp_path / "store.db") as reader:
        report = export_file(reader, tmp_path / "out", format="jsonl", query=LIVE)
    assert (report.rows, report.skipped_total, len(report.skipped)) == (10, 120, 100)


def test_fenced_rows_are_not_exported(tmp_path: Path, store: Any) -> None:
    store.fence(make.RUN.id, 0, "again")
    with pytest.raises(BadQuery, match="fenced"):
        export_file(store, tmp_path / "out", format="jsonl", query=Query(fenced=True))
    export_file(store, tmp_path / "out", format="jsonl", query=LIVE)
    assert make.fresh(0).id in ids_in(tmp_path / "out")
    assert make.fresh(11).id not in ids_in(tmp_path / "out")


# -- targets --------------------------------------------------------------------------------------


def test_a_file_that_is_there_is_kept(tmp_path: Path, store: Any) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("precious")
    with pytest.raises(WouldOverwrite, match="already there"):
        export_file(store, target, format="jsonl", query=LIVE)
    assert target.read_text() == "precious"
    report = export_file(store, target, format="jsonl", query=LIVE, overwrite=True)
    assert target.stat().st_size == report.bytes
    assert leftovers(tmp_path) == []


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, store: Any) -> None:
    target = tmp_path / "out.jsonl"
    with pytest.raises(WouldOverwrite), publishing.publishing(target, overwrite=False):
        target.write_text("theirs")
    assert target.read_text() == "theirs"
    assert leftovers(tmp_path) == []


def test_without_hard_links_files_are_renamed(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    export_file(store, tmp_path / "out", format="jsonl", query=LIVE)
    assert len(ids_in(tmp_path / "out")) == len(make.rows())
    with pytest.raises(WouldOverwrite), publishing.publishing(tmp_path / "new", False):
        (tmp_path / "new").write_text("theirs")
    assert (tmp_path / "new").read_text() == "theirs"
    assert leftovers(tmp_path) == []


def test_places_that_cannot_be_written_are_refused(tmp_path: Path, store: Any) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "file").write_text("x")
    cases = [
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "folder", "No such file"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / ("x" * 300), "too long"),
        ("/dev/null", "not a regular file"),
        (tmp_path / "device", "not a regular file"),
        (tmp_path / "link", "not a regular file"),
        ("a\0b", "not a file name"),
        ("", "it is a folder"),
        ("..", "it is a folder"),
    ]
    for target, reason in cases:
        with pytest.raises(ExportFailed, match=reason):
            export_file(store, target, format="jsonl", query=LIVE, overwrite=True)
    assert not (tmp_path / "elsewhere").exists()
    assert Path("/dev/null").is_char_device()


def test_options_are_checked(tmp_path: Path, store: Any) -> None:
    with pytest.raises(ExportFailed, match=r"'json' is not a format.*Did you mean 'jsonl'"):
        export_file(store, tmp_path / "out", format="json", query=LIVE)
    with pytest.raises(ExportFailed, match="only messages can leave out tokens"):
        export_file(store, tmp_path / "out", format="jsonl", query=LIVE, tokens=False)
    for target, stream in ((None, None), (tmp_path / "out", BytesIO())):
        with pytest.raises(ValueError, match="a target or a stream"):
            export_file(store, target, stream=stream, format="jsonl", query=LIVE)
    assert not (tmp_path / "out").exists()


# -- failures on the way --------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_a_stream_is_told(store: Any, format_: str) -> None:
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(ExportFailed, match="No space left on device"),
    ):
        export_file(store, None, stream=full, format=format_, query=LIVE)


LIMITED = """
import resource, signal, sys
from recollect.errors import ExportFailed
from recollect.store import open_reader
from recollect.store.exporting import export_file
from recollect.store.records import Query
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), resource.RLIM_INFINITY))
with open_reader(sys.argv[1]) as reader:
    try:
        export_file(reader, sys.argv[2], format=sys.argv[3], query=Query(), overwrite=True)
    except ExportFailed as error:
        sys.exit(error.what)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize("format_", FORMATS)
def test_a_full_disk_under_a_file_leaves_the_old_one(
    tmp_path: Path, store: Any, format_: str
) -> None:
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "rows"
    target.write_text("old")
    command = [sys.executable, "-W", "error", "-c", LIMITED, str(store.path), str(target)]
    ran = subprocess.run([*command, format_, "3000"], capture_output=True, text=True, check=False)
    assert ran.stderr.strip().endswith("rows failed: File too large.")
    assert "Traceback" not in ran.stderr
    assert "ignored" not in ran.stderr
    assert [path.name for path in target.parent.iterdir()] == ["rows"]
    assert target.read_text() == "old"


def test_a_store_that_fails_leaves_nothing(tmp_path: Path, store: Any) -> None:
    for format_ in FORMATS:
        with open_reader(store.path) as reader:
            real = reader.frames

            def failing(ids: Any, real: Any = real) -> Any:
                raise StoreError(store.path, "gone")

            reader.frames = failing  # type: ignore[method-assign]
            with pytest.raises(StoreError, match="gone"):
                export_file(reader, tmp_path / "out", format=format_, query=LIVE)
        assert not (tmp_path / "out").exists()
        assert leftovers(tmp_path) == []


SLOW = """
import sys, time
from recollect.store import open_reader, outgoing
from recollect.store.exporting import export_file
from recollect.store.records import Query
real = outgoing.OutgoingRows._with_references
def slow(self, t):
    print(t.id, flush=True)
    time.sleep(0.05)
    return real(self, t)
outgoing.OutgoingRows._with_references = slow
with open_reader(sys.argv[1]) as reader:
    export_file(reader, sys.argv[2], format="jsonl", query=Query(), overwrite=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("sign", ["SIGKILL", "SIGINT"])
def test_a_kill_or_an_interrupt_never_leaves_half_a_file(
    tmp_path: Path, store: Any, sign: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-c", SLOW, str(store.path), str(folder / "rows")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(5):
        child.stdout.readline()
    child.send_signal(getattr(signal, sign))
    child.communicate()
    assert not (folder / "rows").exists()
    assert (leftovers(folder) == []) is (sign == "SIGINT")
    export_file(store, folder / "rows", format="jsonl", query=LIVE)
    assert len(ids_in(folder / "rows")) == len(make.rows())


def test_new_files_have_the_usual_permissions(tmp_path: Path, store: Any) -> None:
    (tmp_path / "plain").write_text("")
    export_file(store, tmp_path / "out", format="jsonl", query=LIVE)
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode
