"""Importing files: what is kept, what is refused, and that nothing is ever half there."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import BadFile, InvalidRecord, RecollectError
from recollect.store import importing, open_reader, open_store
from recollect.store.exporting import export_file
from recollect.store.importing import BadLine, ImportReport, Limits, import_file
from recollect.store.records import Batch
from recollect.types import RunId

from . import import_factories as make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with open_store(tmp_path / "store.db") as opened:
        yield opened


def lines(tmp_path: Path, *given: Any) -> Path:
    return make.write_lines(tmp_path / "rows.jsonl", *given)


def good(number: int) -> dict[str, Any]:
    return make.message_line(id=f"good-{number}", task=f"t{number}")


def is_empty(store: Any) -> bool:
    stats = store.stats()
    return bool(stats.trajectories == stats.runs == stats.tasks == stats.notes == 0)


# -- what a report says -------------------------------------------------------------------------


def test_a_report_says_what_happened(tmp_path: Path, store: Any) -> None:
    path = lines(tmp_path, good(0), "{", "", good(1), make.message_line(reward="x"), good(0))
    report = import_file(store, path, run=RunId("mine"))
    assert report == ImportReport(
        path=path,
        format="messages",
        run=RunId("mine"),
        added=2,
        known=1,
        bad=(
            BadLine(2, "line", report.bad[0].reason),
            BadLine(5, "reward", "expected a number, got text"),
        ),
        bad_total=2,
    )
    assert report.bad[0].reason.startswith("is not JSON: Expecting property name")
    assert [row.id for row in make.contents(store)] == ["good-0", "good-1"]
    assert str(report.bad[1]) == "line 5: reward: expected a number, got text"


def test_the_first_hundred_bad_lines_are_named_in_order(tmp_path: Path, store: Any) -> None:
    mixed = [good(n % 150) | ({"reward": 2} if n >= 150 else {}) for n in range(300)]
    path = lines(
        tmp_path, *(line for pair in zip(mixed, ["?"] * 300, strict=True) for line in pair)
    )
    report = import_file(store, path)
    assert (report.added, report.known, report.bad_total) == (150, 0, 300 + 150)
    assert len(report.bad) == 100
    numbers = [bad.line for bad in report.bad]
    assert numbers == sorted(numbers)


JUNK: list[tuple[bytes, str]] = [
    (b"not json", "is not JSON"),
    (b"[1,2]", "expected an object, got an array"),
    (b'"text"', "expected an object, got text"),
    (b"null", "expected an object, got null"),
    (b"17", "expected an object, got a number"),
    (b'{"reward": NaN}', "NaN is not a JSON number"),
    (b'{"reward": -Infinity}', "-Infinity is not a JSON number"),
    (b'{"reward": 1} {"reward": 2}', "Extra data"),
    (b'{"reward": 1, "reward": 2}', "the key 'reward' appears twice"),
    (b'{"\x1b]0;x": 1, "\x1b]0;x": 2}', "is not JSON: Invalid control character"),
    (b'{"reward": "\xff"}', "is not UTF-8 (byte 13)"),
    (b'{"reward": "\xed\xa0\x80"}', "is not UTF-8"),
    (b'{"reward": ' + b"9" * 5000 + b"}", "too many digits"),
    (b"[" * 200 + b"]" * 200, "is nested more than 128 levels deep"),
    (b"[" * 100_000 + b"]" * 100_000, "is nested too deeply"),
    (b'{"a":' * 100_000, "is nested too deeply"),
    (b"\0\0\0", "is not JSON"),
    (b'{"messages": [], "reward": 1}', "is empty"),
    (b'{"messages": ["\\ud800"], "reward": 1}', "expected an object"),
]


@pytest.mark.parametrize(("junk", "reason"), JUNK, ids=lambda v: repr(v)[:25])
def test_junk_is_one_bad_line(tmp_path: Path, store: Any, junk: bytes, reason: str) -> None:
    report = import_file(store, lines(tmp_path, good(0), junk, good(1)))
    assert report.added == 2
    (bad,) = report.bad
    assert bad.line == 2
    assert reason in bad.reason
    assert len(bad.reason) < 400
    assert (bad.field + bad.reason).isprintable()


def test_a_line_at_the_limit_of_depth_is_fine(tmp_path: Path, store: Any) -> None:
    deep: Any = 0
    for _ in range(90):
        deep = [deep]
    assert import_file(store, lines(tmp_path, good(0) | {"deep": deep})).added == 1
    assert (
        import_file(
            store, lines(tmp_path, good(1) | {"deep": deep}, good(2)), limits=Limits(max_depth=50)
        ).bad_total
        == 1
    )


def test_limits_apply_to_a_line(tmp_path: Path, store: Any) -> None:
    long = good(1) | {"padding": "x" * 2000}
    many = good(2) | {"padding": [0] * 500}
    talk = make.message_line(messages=[{"role": "user", "content": "x"}] * 20)
    limits = Limits(max_line_bytes=1900, max_values=400, max_messages=10)
    report = import_file(store, lines(tmp_path, long, good(0), many, talk, long), limits=limits)
    assert report.added == 1
    assert [(bad.line, bad.reason) for bad in report.bad] == [
        (1, "is longer than 1,900 bytes"),
        (3, "holds more than 400 values"),
        (4, "has 20 items; the limit is 10"),
        (5, "is longer than 1,900 bytes"),
    ]


@pytest.mark.parametrize("extra", [0, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_lines_of_every_length_end_where_they_end(tmp_path: Path, store: Any, extra: int) -> None:
    """Around the size of the pieces in which long lines are read."""
    base = len(json.dumps(good(0) | {"padding": ""}))
    line = json.dumps(good(0) | {"padding": "x" * max(0, extra - base)})
    for end in ("\n", "\r\n", ""):
        (tmp_path / "x.jsonl").write_bytes(f"{line}\n{json.dumps(good(1))}{end}".encode())
        assert import_file(store, tmp_path / "x.jsonl").bad == ()
        (tmp_path / "x.jsonl").write_bytes(f"{json.dumps(good(1))}\n{line}{end}".encode())
        assert import_file(store, tmp_path / "x.jsonl").bad == ()
    limits = Limits(max_line_bytes=len(line))
    assert import_file(store, tmp_path / "x.jsonl", limits=limits).bad == ()
    limits = Limits(max_line_bytes=len(line) - 1)
    if extra > base:
        assert import_file(store, tmp_path / "x.jsonl", limits=limits).bad_total == 1


def test_limits_are_counts() -> None:
    with pytest.raises(InvalidRecord, match="max_depth"):
        Limits(max_depth=-1)


def test_the_examples_in_the_docs_can_be_imported(tmp_path: Path, store: Any) -> None:
    docs = Path(__file__).parents[2] / "docs" / "import-export.md"
    own, messages = (part.partition("```")[0] for part in docs.read_text().split("```jsonl\n")[1:])
    for number, (text, format_) in enumerate([(own, "jsonl"), (messages, "messages")], start=1):
        path = tmp_path / format_
        path.write_text(text)
        report = import_file(store, path)
        assert (report.format, report.added, report.bad) == (format_, number, ())
    stream = BytesIO()
    export_file(store, None, stream=stream, format="jsonl", query=make.EVERYTHING)
    assert stream.getvalue().startswith(own.encode())


# -- files that cannot be used at all -------------------------------------------------------------


def refuse(store: Any, path: Any, reason: str, **options: Any) -> BadFile:
    with pytest.raises(BadFile, match=reason) as caught:
        import_file(store, path, **options)
    assert is_empty(store)
    assert "\n" not in str(caught.value)
    return caught.value


def test_unusable_files_are_refused(tmp_path: Path, store: Any) -> None:
    refuse(store, tmp_path / "nothing", "there is no such file")
    refuse(store, tmp_path, "it is a folder")
    refuse(store, "/dev/null", "neither a file nor a pipe")
    refuse(store, "a\0b", "not a file name")
    refuse(store, tmp_path / ("x" * 300), "it cannot be read")
    for content, reason in (
        (b"", "it is empty"),
        (b"\n \r\n\t\n", "it is empty"),
        (b"hello\nworld\n", "none of its 2 lines can be imported .*line 1: line: is not JSON"),
        (os.urandom(2000) + b"\0", "can be imported"),
        (b"\x1f\x8b\x08\0\0", "gzip"),
        (b"SQLite format 3\0....", "it is a SQLite file"),
        (b"PK\x03\x04...", "zip"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
        (b"\x80\x04\x95", "pickle"),
        (b'[\n{"messages": []}\n]\n', "none of its 3 lines"),
        (b'{"instruction": "a", "output": "b"}\n', "messages: is missing"),
    ):
        (tmp_path / "file").write_bytes(content)
        refuse(store, tmp_path / "file", reason)
    assert "array" in refuse(store, lines(tmp_path, "[", "]"), "can be imported").hint
    assert "binary" in refuse(store, lines(tmp_path, b"\0\1\2"), "can be imported").hint


def test_the_store_itself_is_not_a_file_to_import(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.db") as store:
        make.fill(store)
        with pytest.raises(BadFile, match="SQLite"):
            import_file(store, tmp_path / "store.db")


def test_formats_are_named(tmp_path: Path, store: Any) -> None:
    path = lines(tmp_path, good(0))
    assert "messages" in refuse(store, path, "'mesages' is not a format", format="mesages").hint
    refuse(store, path, "does not begin with Recollect's header", format="jsonl")
    refuse(store, path, "not a Parquet file", format="parquet")
    (tmp_path / "p").write_bytes(b"PAR1....")
    refuse(store, tmp_path / "p", "it is a Parquet file", format="messages")
    assert import_file(store, path, format="messages").added == 1


def test_options_are_checked(tmp_path: Path, store: Any) -> None:
    path = lines(tmp_path, good(0))
    for options in (
        {"run": RunId("../x")},
        {"environment": ""},
        {"environment": "\ud800"},
        {"default_reward": float("nan")},
        {"success_threshold": float("inf")},
    ):
        with pytest.raises(InvalidRecord, match=next(iter(options))):
            import_file(store, path, **options)
    own = lines(tmp_path, '{"format":"recollect","version":1}')
    refuse(store, own, "keep the runs they come from", run=RunId("mine"))
    assert is_empty(store)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path, store: Any) -> None:
    path = lines(tmp_path, good(0))
    path.chmod(0)
    refuse(store, path, "Permission denied")


def test_a_pipe_can_be_read(tmp_path: Path, store: Any) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(json.dumps(good(n)) + "\n" for n in range(300))
    writer = threading.Thread(target=lambda: pipe.write_text(text))
    writer.start()
    report = import_file(store, pipe)
    writer.join()
    assert report.added == 300


# -- all or nothing ------------------------------------------------------------------------------


def test_strict_imports_all_or_nothing(tmp_path: Path, store: Any) -> None:
    path = lines(tmp_path, *(good(n) for n in range(400)), "{", good(400), "{", "{", "{")
    error = refuse(store, path, "line 401: line: is not JSON.*line 403", strict=True)
    assert "line 405" not in str(error)
    assert import_file(store, path).added == 401
    assert import_file(store, lines(tmp_path, good(401)), strict=True).added == 1
    with pytest.raises(BadFile, match="different content"):
        import_file(store, lines(tmp_path, good(500), good(0) | {"reward": 0}), strict=True)
    assert store.stats().trajectories == 402


def test_an_interrupt_leaves_nothing(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_BLOCK_LINES", 10)
    path = lines(tmp_path, *(good(n) for n in range(100)))
    real = importing.Admission.consider
    calls = []

    def interrupted(self: Any, block: Any) -> Any:
        calls.append(len(block))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(self, block)

    monkeypatch.setattr(importing.Admission, "consider", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_file(store, path)
    assert calls == [10] * 5
    assert is_empty(store)
    with open_reader(store.path) as reader:
        assert is_empty(reader)
    monkeypatch.undo()
    assert import_file(store, path).added == 100
    assert list(store.verify()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, store: Any) -> None:
    make.fill(store)
    before = store.stats().trajectories
    text = "x" * 20_000
    path = lines(tmp_path, *(good(n) | {"padding": text} for n in range(300)))
    store._connection.execute("PRAGMA max_page_count = 60")
    with pytest.raises(RecollectError, match="No room left"):
        import_file(store, path)
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.stats().trajectories == before
    assert import_file(store, path).added == 300


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    """The child is killed while it reads a pipe that never ends."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = (
        "import sys; from recollect.store import open_store;"
        "from recollect.store.importing import import_file;"
        "import_file(open_store(sys.argv[1]), sys.argv[2])"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s.db"), str(pipe)])
    with pipe.open("wb") as writer:
        for number in range(1000):
            writer.write(json.dumps(good(number)).encode() + b"\n")
        writer.flush()
        time.sleep(0.3)
        child.kill()
        child.wait()
    with open_store(tmp_path / "s.db") as store:
        assert is_empty(store)
        assert import_file(store, lines(tmp_path, good(0))).added == 1


# -- what is known, and what contradicts it -------------------------------------------------------


def exported(store: Any) -> list[bytes]:
    stream = BytesIO()
    export_file(store, None, stream=stream, format="jsonl", query=make.EVERYTHING)
    return stream.getvalue().splitlines()


def test_the_same_id_with_other_content_is_a_bad_line(tmp_path: Path, store: Any) -> None:
    import_file(store, lines(tmp_path, good(0)))
    changed = good(0) | {"reward": 0.5}
    report = import_file(
        store, lines(tmp_path, changed, good(0), good(1), good(1) | {"success": False})
    )
    assert (report.added, report.known) == (1, 1)
    assert [(bad.line, bad.field, bad.reason) for bad in report.bad] == [
        (1, "id", "trajectory good-0 is already stored with different content"),
        (4, "id", "trajectory good-1 is earlier in this file with different content"),
    ]
    assert make.contents(store)[0].reward.value == 1.0


def test_every_kind_of_record_may_contradict_the_store(tmp_path: Path, store: Any) -> None:
    """Each changed line is bad; rows that lean on a changed run or task are bad too."""
    make.fill(store)
    data = [json.loads(line) for line in exported(store)]
    kinds = [line.get("type") for line in data]
    changes = {
        "run": {"seed": 99},
        "note": {"content": "changed"},
        "link": {"run": None, "step": None, "kind": "guided"},
        "trajectory": {"success": None},
    }
    with open_store(tmp_path / "other.db") as other:
        for kind in ("note", "trajectory", "run", "task"):
            place = kinds.index(kind)
            changed = [dict(line) for line in data]
            changed[place] |= changes.get(kind, {"split": "train"})
            if kind == "trajectory":
                changed[place]["success"] = not data[place]["success"]
            report = import_file(store, lines(tmp_path, *changed))
            assert report.added == 0
            assert report.bad[0].line == place + 1
            assert "is already stored with different content" in report.bad[0].reason
            rows = kinds.count("trajectory")
            if kind == "run":
                assert report.known == 0
                reason = "run-1 was refused on line 2"
                assert all(bad.reason == reason for bad in report.bad[1:] if bad.field == "run")
                assert len(report.bad) == 1 + rows + sum(
                    line.get("run") is not None
                    for line in data
                    if line.get("type") in ("note", "link")
                )
            elif kind == "task":
                same = sum(line.get("task") == data[place]["key"] for line in data)
                assert (report.known, report.bad_total) == (rows - same, 1 + same)
            elif kind == "trajectory":
                assert (report.known, report.bad_total) == (rows - 1, 1)
            else:
                assert (report.known, report.bad_total) == (rows, 1)
        assert is_empty(other)
    assert make.contents(store) == make.rows()
    assert list(store.verify()) == []


def test_links_are_checked_like_everything_else(tmp_path: Path, store: Any) -> None:
    make.fill(store)
    header = '{"format":"recollect","version":1}'
    link = {"type": "link", "note": "note-1", "trajectory": "row-100", "kind": "guided"}
    same = link | {"run": "run-1", "step": make.guided().step}
    report = import_file(
        store,
        lines(
            tmp_path,
            header,
            link,
            same,
            link | {"kind": "source"},
            link | {"kind": "source"},
            link | {"trajectory": "nowhere"},
            link | {"kind": "cousin"},
            link | {"kind": "source", "note": "note-9", "run": "nobody", "step": 1},
        ),
    )
    assert [(bad.line, bad.field) for bad in report.bad] == [
        (2, "link"),
        (6, "trajectory"),
        (7, "kind"),
        (8, "run"),
    ]
    assert len(store.links(trajectory=make.guided().id)) == 3


def test_a_row_whose_old_link_says_otherwise_is_refused(tmp_path: Path, store: Any) -> None:
    """Links outlive rows that were removed: the id then belongs to another step."""
    make.fill(store)
    data = exported(store)
    with open_store(tmp_path / "other.db") as other:
        other.commit(Batch(runs=[make.RUN]))
        link = {"type": "link", "note": "note-1", "trajectory": "x", "kind": "guided"}
        row = json.loads(
            next(line for line in data if b'"row-100"' in line and b'"trajectory"' in line)
        )
        stale = store.links(trajectory=make.guided().id)[0]
        other.commit(Batch(links=[type(stale)(stale.note, stale.trajectory, stale.kind)]))
        path = lines(tmp_path, *data, row, link)
        report = import_file(other, path)
        assert report.added == len(make.rows()) - 1
        assert ("link" in [bad.field for bad in report.bad]) is True
        assert list(other.verify()) == []


def test_a_damaged_stored_row_is_not_taken_for_the_same(tmp_path: Path) -> None:
    path = lines(tmp_path, good(0), good(1))
    with open_store(tmp_path / "s.db") as store:
        import_file(store, path)
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute(
        "UPDATE payloads SET frame = substr(frame, 1, length(frame) - 1) WHERE seq = 1"
    )
    connection.commit()
    connection.close()
    with open_store(tmp_path / "s.db") as store:
        report = import_file(store, path)
        assert (report.added, report.known) == (0, 1)
        (bad,) = report.bad
        assert "already stored, but its bytes are damaged" in bad.reason


def test_fenced_rows_can_come_back(tmp_path: Path, store: Any) -> None:
    make.fill(store)
    data = exported(store)
    store.fence(make.RUN.id, 0, "again")
    left = store.stats().trajectories
    report = import_file(store, lines(tmp_path, *data))
    assert report.bad == ()
    assert report.known + report.added == len(make.rows())
    assert report.added > 0
    assert left < len(make.rows()) + 1
    assert sorted(row.id for row in make.contents(store)) == sorted(row.id for row in make.rows())


# -- memory ----------------------------------------------------------------------------------------

OVERSIZED = """
import sys
from pathlib import Path
from recollect.store import open_store
from recollect.store.importing import import_file
with open_store(sys.argv[1]) as store:
    report = import_file(store, sys.argv[2])
# VmHWM begins anew at exec; ru_maxrss would carry over the peak of the process that started us.
status = Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
bad = report.bad
print(report.added, [line.line for line in bad], bad[0].reason, round(peak), sep="|")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_an_oversized_line_is_passed_over_with_bounded_memory(tmp_path: Path) -> None:
    """2 GB in one line, as a sparse file: refused, and the lines around it imported."""
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.write(json.dumps(good(0)).encode() + b'\n{"messages": "')
        file.seek(2 * 2**30, os.SEEK_CUR)
        file.write(b'"}\n' + json.dumps(good(1)).encode() + b"\n")
    command = [sys.executable, "-c", OVERSIZED, str(tmp_path / "s.db"), str(path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    added, bad, reason, peak = out.strip().split("|")
    assert (added, bad, reason) == ("2", "[2]", "is longer than 67,108,864 bytes")
    assert int(peak) < 200, f"peak memory {peak} MB"


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_BLOCK_BYTES", 2**20)
    text = "x" * 100_000
    peaks = []
    for name, count in (("a", 40), ("b", 160)):
        rows = (make.message_line(id=f"{name}-{n}", padding=text) for n in range(count))
        path = lines(tmp_path, *rows)
        tracemalloc.start()
        try:
            assert import_file(store, path).added == count
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 8 * 2**20
