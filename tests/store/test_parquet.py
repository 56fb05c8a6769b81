"""Parquet in and out."""

from __future__ import annotations

import builtins
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.errors import BadFile, MissingExtra, RecollectError
from recollect.store import open_store, parquet
from recollect.store.codec import encode
from recollect.store.exporting import ExportReport, export_file
from recollect.store.importing import ImportReport, import_file
from recollect.store.incoming import Limits

from . import import_factories as make

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An export of every kind of row."""
    path = tmp_path / "rows.parquet"
    with open_store(tmp_path / "from.db", compress=True) as store:
        make.fill(store)
        report = export_file(store, path, format="parquet", query=make.EVERYTHING)
    assert report == ExportReport(len(make.rows()), path.stat().st_size, (), 0)
    return path


def imported(tmp_path: Path, path: Path, **options: Any) -> ImportReport:
    with open_store(tmp_path / "into.db") as store:
        report = import_file(store, path, **options)
        assert len(make.contents(store)) == report.added
        return report


def test_trajectories_tasks_and_runs_come_back(tmp_path: Path, file: Path) -> None:
    with open_store(tmp_path / "into.db") as store:
        report = import_file(store, file)
        assert (report.format, report.run, report.bad) == ("parquet", None, ())
        assert make.contents(store) == make.rows()
        assert {task.key for task in store.tasks().values()} == {make.task(n).key for n in range(5)}
        assert store.task(make.task(1).key) == make.task(1)
        assert list(store.runs().values()) == [make.RUN]
        again = import_file(store, file)
        assert (again.added, again.known) == (0, len(make.rows()))
        assert list(store.verify()) == []


def test_others_can_read_the_columns(file: Path) -> None:
    table = pq.read_table(file)
    assert table.column("reward").type == pa.float64()
    assert table.column("tokens").type == pa.list_(pa.int32())
    assert table.column("logprobs")[0].as_py() == make.fresh(0).logprobs.tolist()
    assert table.column("sampled")[0].as_py() == make.fresh(0).sampled.tolist()
    assert table.column("segments")[0].as_py()[2]["calls"][0]["name"] == "find_booking"


def test_row_groups_are_bounded_and_the_stream_need_not_seek(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pipe(BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise OSError("a pipe cannot seek")

    monkeypatch.setattr(parquet, "_GROUP_ROWS", 4)
    monkeypatch.setattr(parquet, "_ROWS_AT_ONCE", 3)
    pipe = Pipe()
    with open_store(tmp_path / "from.db") as store:
        make.fill(store)
        export_file(store, None, stream=pipe, format="parquet", query=make.EVERYTHING)
    path = tmp_path / "rows.parquet"
    path.write_bytes(pipe.getvalue())
    assert pq.ParquetFile(path).metadata.num_row_groups == 4
    assert imported(tmp_path, path).added == len(make.rows())


def test_a_table_written_by_others_with_wider_types_is_fine(tmp_path: Path, file: Path) -> None:
    table = pq.read_table(file)
    for name, kind in (
        ("tokens", pa.large_list(pa.int64())),
        ("logprobs", pa.list_(pa.float64())),
        ("step", pa.int64()),
        ("id", pa.large_string()),
    ):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table.column(name).cast(kind))
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "wide.parquet")
    with open_store(tmp_path / "into.db") as store:
        assert import_file(store, tmp_path / "wide.parquet").bad == ()
        assert make.contents(store) == make.rows()


def changed(file: Path, name: str, change: Any) -> Path:
    """Rewrite one column, row by row."""
    table = pq.read_table(file)
    place = table.schema.get_field_index(name)
    values = [change(row, value) for row, value in enumerate(table.column(name).to_pylist())]
    column = pa.array(values, table.schema.field(name).type)
    path = file.with_name("changed.parquet")
    pq.write_table(table.set_column(place, table.schema.field(name), column), path)
    return path


@pytest.mark.parametrize(
    ("column", "value", "field", "reason"),
    [
        ("id", "../x", "id", "is not an id"),
        ("id", None, "id", "is missing"),
        ("reward", float("nan"), "reward", "not finite"),
        ("logprobs", [float("-inf")] * 9, "logprobs", "not finite"),
        ("logprobs", [None] * 9, "logprobs", "holds a null"),
        ("tokens", None, "tokens", "is missing"),
        ("tokens", [-5] * 24, "tokens", "negative"),
        ("tokens", [1], "segments", "cover 24 of 1 tokens"),
        ("segments", [None], "segments[0]", "expected an object, got null"),
        ("task", "other", "task", "is not the key"),
        ("extra", "{", "extra", "is not JSON"),
        ("extra", '{"a": NaN}', "extra", "is not JSON"),
        ("extra", "[" * 100_000, "extra", "nested too deep"),
        ("run_config", None, "run_config", "is missing"),
        ("run_seed", -1, "run.seed", "outside"),
        ("reward_parts", [{"name": "a", "value": 1}] * 2, "reward_parts[0].name", "twice"),
        ("success", None, "success", "is missing"),
        ("origin", "x", "origin", "is not one of"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_bad_rows_are_named_and_the_others_kept(
    tmp_path: Path, file: Path, column: str, value: Any, field: str, reason: str
) -> None:
    path = changed(file, column, lambda row, old: value if row == 2 else old)
    report = imported(tmp_path, path)
    assert report.added == len(make.rows()) - 1
    (bad,) = report.bad
    assert bad.line == 3
    assert bad.field.replace("[1]", "[0]") == field
    assert reason in bad.reason


def test_foreign_files_are_refused(tmp_path: Path, file: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    table = pq.read_table(file)
    cases = [
        (pa.table({"a": [1]}), "has no column 'id'"),
        (table.drop_columns(["tokens"]), "has no column 'tokens'"),
        (table.append_column("advantage", pa.nulls(len(table))), "'advantage' is not known"),
        (table.append_column("rewards", pa.nulls(len(table))), "did you mean 'reward'"),
        (
            table.set_column(table.schema.names.index("tokens"), "tokens", table["id"]),
            "holds string",
        ),
        (table.replace_schema_metadata({b"recollect.version": b"9"}), "format version '9'"),
    ]
    for other, reason in cases:
        pq.write_table(other, foreign)
        with open_store(tmp_path / "into.db") as store:
            with pytest.raises(BadFile, match=reason):
                import_file(store, foreign)
            assert store.stats().runs == store.stats().tasks == 0


def test_damage_is_noticed_and_nothing_enters(tmp_path: Path, file: Path) -> None:
    data = bytearray(file.read_bytes())
    broken = tmp_path / "broken.parquet"
    rng = np.random.default_rng(0)
    refused = 0
    with open_store(tmp_path / "into.db") as store:
        for place in rng.integers(4, len(data), 60):
            data[place] ^= 0x55
            broken.write_bytes(data)
            try:
                import_file(store, broken)
            except RecollectError:
                refused += 1
            data[place] ^= 0x55
        assert set(map(encode, make.contents(store))) <= set(map(encode, make.rows()))
    assert refused > 30  # the others hit statistics and names that nobody reads
    for size in (3, 4, 100, len(data) // 2, len(data) - 1):
        broken.write_bytes(data[:size])
        with pytest.raises(RecollectError), open_store(tmp_path / "into.db") as store:
            import_file(store, broken, format="parquet")


def test_row_groups_that_unfold_too_far_are_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(BadFile, match="row group 0 unfolds to more than 100 bytes"):
        imported(tmp_path, file, limits=Limits(max_group_bytes=100))


def test_long_conversations_are_refused(tmp_path: Path, file: Path) -> None:
    report = imported(tmp_path, file, limits=Limits(max_messages=5))
    assert [(bad.line, bad.field) for bad in report.bad] == [(13, "segments")]


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for module in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, module)
    with open_store(tmp_path / "into.db") as store:
        with pytest.raises(MissingExtra, match=r"\[parquet\]"):
            import_file(store, file)
        with pytest.raises(MissingExtra, match=r"\[parquet\]"):
            export_file(store, tmp_path / "out.parquet", format="parquet", query=make.EVERYTHING)
    assert not (tmp_path / "out.parquet").exists()


def test_a_part_of_the_reward_is_named_by_text(tmp_path: Path, file: Path) -> None:
    table = pq.read_table(file)
    parts = pa.array([[{"name": ["a"], "value": 1.0}]] * len(table))
    path = tmp_path / "odd.parquet"
    place = table.schema.names.index("reward_parts")
    pq.write_table(table.set_column(place, "reward_parts", parts), path)
    with pytest.raises(BadFile, match=r"reward_parts\[0\].name: expected text"):
        imported(tmp_path, path)
