"""Recollect's own JSON lines: exact both ways, strict about what it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.canonical import canonical_json
from recollect.errors import BadFile
from recollect.store import codec, open_store
from recollect.store.arrays import floats_from, floats_to_list, mask_from, spans_to_list
from recollect.store.exporting import export_file
from recollect.store.importing import import_file
from recollect.store.records import Query
from recollect.types import LinkKind, TrajectoryId

from . import import_factories as make

HEADER = '{"format":"recollect","version":1}'


def exported(store: Any, query: Query = make.EVERYTHING) -> bytes:
    stream = BytesIO()
    export_file(store, None, stream=stream, format="jsonl", query=query)
    return stream.getvalue()


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("compress", [False, True])
def test_export_import_export_gives_the_same_bytes(tmp_path: Path, compress: bool) -> None:
    with open_store(tmp_path / "a.db", compress=compress) as first:
        kept = make.fill(first)
        data = exported(first)
    (tmp_path / "a.jsonl").write_bytes(data)
    with open_store(tmp_path / "b.db", compress=not compress) as second:
        report = import_file(second, tmp_path / "a.jsonl")
        assert (report.format, report.run, report.added) == ("jsonl", None, len(kept))
        assert (report.known, report.bad) == (0, ())
        assert exported(second) == data
        assert make.contents(second) == kept
        assert [codec.encode(t) for t in make.contents(second)] == [codec.encode(t) for t in kept]
        assert list(second.runs().values()) == [make.RUN]
        assert second.task(make.task(0).key) == make.task(0)
        assert second.note(make.NOTE.id) == make.NOTE
        sources = second.links(trajectory=kept[1].id)
        assert {link.kind for link in sources} == {LinkKind.SOURCE}
        assert len(sources) == 2
        assert len(second.links(trajectory=make.guided().id)) == 2
        assert list(second.verify()) == []


def test_lines_are_canonical_and_come_after_what_they_refer_to(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        make.fill(store)
        data = exported(store)
    assert data.endswith(b"\n")
    seen: set[str] = set()
    for number, (raw, line) in enumerate(zip(data.splitlines(), lines_of(data), strict=True)):
        assert canonical_json(line).encode() == raw
        if number == 0:
            assert line == json.loads(HEADER)
            continue
        if line["type"] == "trajectory":
            assert {f"run {line['run']}", f"task {line['task']}"} <= seen
        if line["type"] == "link":
            assert {f"note {line['note']}", f"trajectory {line['trajectory']}"} <= seen
        key = line.get("key") or line.get("id") or canonical_json(line)
        assert f"{line['type']} {key}" not in seen
        seen.add(f"{line['type']} {key}")


def test_only_what_the_rows_refer_to_is_exported(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        make.fill(store)
        lines = lines_of(exported(store, Query(ids=[TrajectoryId("row-3")])))
    assert [line.get("type", "header") for line in lines] == ["header", "run", "task", "trajectory"]


def test_an_empty_export_can_be_imported(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        data = exported(store)
        assert data.decode() == HEADER + "\n"
        (tmp_path / "a.jsonl").write_bytes(data)
        assert import_file(store, tmp_path / "a.jsonl").added == 0


def test_files_may_be_put_behind_each_other(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        kept = make.fill(store)
        data = exported(store)
    (tmp_path / "twice.jsonl").write_bytes(b"\xef\xbb\xbf" + data + b"\r\n  \r\n" + data)
    with open_store(tmp_path / "b.db") as store:
        report = import_file(store, tmp_path / "twice.jsonl")
        assert (report.added, report.known, report.bad_total) == (len(kept), len(kept), 0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, bytes]]:
    """A store for all the bad lines below, and the export of one row: header, run, task, row."""
    folder = tmp_path_factory.mktemp("shared")
    with open_store(folder / "one.db") as source:
        make.fill(source, [make.fresh(0)])
        data = exported(source)
    with open_store(folder / "into.db") as store:
        yield store, data
        assert make.contents(store) == []


def bad_of(tmp_path: Path, store: Any, lines: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    report = import_file(store, make.write_lines(tmp_path / "changed.jsonl", *lines))
    assert report.added == 0
    return [(bad.line, bad.field, bad.reason) for bad in report.bad]


CHANGES = [
    ({"id": "../../etc/passwd"}, "id", "is not an id"),
    ({"id": "/abs"}, "id", "is not an id"),
    ({"id": "a\0b"}, "id", "is not an id"),
    ({"id": None}, "id", "is missing"),
    ({"tokens": [1, 2.5]}, "tokens", "expected whole numbers, found a fraction"),
    ({"tokens": [1, True]}, "tokens", "expected whole numbers, found true or false"),
    ({"tokens": [-1] * 24}, "tokens", "outside 0..2147483647"),
    ({"tokens": [2**40] * 24}, "tokens", "outside 0..2147483647"),
    ({"tokens": {"0": 1}}, "tokens", "expected an array, got an object"),
    ({"tokens": [1] * 23}, "sampled", "beyond 23"),
    ({"sampled": [[6, 11]]}, "logprobs", "has 9 values for 5 sampled tokens"),
    ({"sampled": [[5, 4]]}, "sampled", "empty, out of order"),
    ({"sampled": [[0, 10**400]]}, "sampled", "beyond 24"),
    ({"sampled": [[-3, 2]]}, "sampled", "out of order"),
    ({"sampled": [0, 1]}, "sampled", "expected spans"),
    ({"logprobs": None}, "logprobs", "are missing"),
    ({"logprobs": [0.5] * 9}, "logprobs", "must be <= 0"),
    ({"logprobs": [-1e300] * 9}, "logprobs", "not finite"),
    ({"logprobs": [-(10**400)] * 9}, "logprobs", "too large"),
    ({"logprobs": [None] * 9}, "logprobs", "expected numbers, found null"),
    ({"logprobs": "-1"}, "logprobs", "expected an array, got text"),
    ({"segments": []}, "segments", "non-empty"),
    ({"segments": [{"kind": "system", "start": 0, "end": 3}]}, "segments[0].text", "is missing"),
    ({"segments": ["x"]}, "segments[0]", "expected an object, got text"),
    ({"reward": "1"}, "reward", "expected a number, got text"),
    ({"reward": 10**400}, "reward", "too large"),
    ({"reward": True}, "reward", "expected a number, got true or false"),
    ({"reward_parts": {"x": "y"}}, "reward_parts", "expected a number"),
    ({"reward_parts": [1]}, "reward_parts", "must map names to numbers"),
    ({"success": 1}, "success", "expected true or false"),
    ({"step": -1}, "step", "outside"),
    ({"step": 1.0}, "step", "whole number"),
    ({"origin": "stolen"}, "origin", "'stolen' is not one of fresh, guided, demo"),
    ({"origin": ["fresh"]}, "origin", "an array is not one of"),
    ({"stop": "tired"}, "stop", "is not one of"),
    ({"sampling": {"temprature": 1}}, "sampling.temprature", "did you mean 'temperature'?"),
    ({"sampling": {"temperature": 10**400}}, "sampling.temperature", "too large"),
    ({"sampling": None}, "sampling", "is missing"),
    ({"notes": [{"note": "n", "start": 0, "end": 1}]}, "notes", "is not a note segment"),
    ({"notes": [{"note": "../n", "start": 0, "end": 1}]}, "notes[0].note", "is not an id"),
    ({"extra": {"\ud800": 1}}, "extra", "valid text"),
    ({"tokenizer": "\ud800"}, "tokenizer", "lone surrogate"),
    ({"logprob": []}, "logprob", "is not a known key; did you mean 'logprobs'?"),
    ({"\x1b[31m": 1}, "'\\x1b[31m'", "is not a known key"),
    ({"run": "other"}, "run", "other is neither in the store nor earlier in this file"),
    ({"task": "other"}, "task", "other is neither in the store nor earlier in this file"),
    ({"type": "trajectroy"}, "type", "did you mean 'trajectory'?"),
    ({"type": ["run"]}, "type", "an array is not one of"),
]


@pytest.mark.parametrize(("change", "field", "reason"), CHANGES, ids=lambda v: str(v)[:30])
def test_what_is_wrong_is_named(
    tmp_path: Path, shared: tuple[Any, bytes], change: dict[str, Any], field: str, reason: str
) -> None:
    store, data = shared
    lines = lines_of(data)
    lines[3] |= change
    ((line, found, why),) = bad_of(tmp_path, store, lines)
    assert (line, found) == (4, field)
    assert reason in why


def test_wrong_segments_are_named_by_position(tmp_path: Path, shared: tuple[Any, bytes]) -> None:
    store, data = shared
    for change, field in (
        ({"kind": "boss"}, "segments[2].kind"),
        ({"start": -1}, "segments[2].start"),
        ({"text": 5}, "segments[2].text"),
        ({"calls": [{"name": "f"}]}, "segments[2].calls[0].arguments"),
        ({"calls": [{"name": 1, "arguments": ""}]}, "segments[2].calls[0].name"),
        ({"colour": "red"}, "segments[2].colour"),
    ):
        lines = lines_of(data)
        lines[3]["segments"][2] |= change
        ((line, found, _),) = bad_of(tmp_path, store, lines)
        assert (line, found) == (4, field)


def test_a_task_whose_key_does_not_fit_is_refused(
    tmp_path: Path, shared: tuple[Any, bytes]
) -> None:
    lines = lines_of(shared[1])
    lines[2]["query"] = "another"
    with open_store(tmp_path / "new.db") as store:
        bad = bad_of(tmp_path, store, lines)
    assert [(line, field) for line, field, _ in bad] == [(3, "key"), (4, "task")]


@pytest.mark.parametrize(
    "first",
    ['{"format":"recollect","version":2}', '{"format":"recollect"}', '{"type":"run"}', "[1]", "x"],
)
def test_only_a_known_header_begins_a_file(
    tmp_path: Path, shared: tuple[Any, bytes], first: str
) -> None:
    store, data = shared
    path = make.write_lines(tmp_path / "a.jsonl", first, *lines_of(data)[1:])
    with pytest.raises(BadFile, match=r"version|header"):
        import_file(store, path, format="jsonl")


@given(st.lists(st.integers(0, 2**32 - 1).map(np.uint32), max_size=50))
@settings(max_examples=300, deadline=None)
def test_float32_survive_nine_digits(bits: list[np.uint32]) -> None:
    values = np.array(bits, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    spelled = json.loads(canonical_json(floats_to_list(values)))
    assert floats_from("x", spelled).tobytes() == values.tobytes()


@given(st.lists(st.booleans(), max_size=60))
def test_masks_survive_as_spans(flags: list[bool]) -> None:
    mask = np.array(flags, dtype=bool)
    spans = json.loads(canonical_json(spans_to_list(mask)))
    assert mask_from("x", spans, mask.size).tolist() == flags
    assert sum(end - start for start, end in spans) == sum(flags)
