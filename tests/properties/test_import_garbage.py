"""Importing whatever: a report or an error of ours, good lines always kept, the store sound."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import RecollectError
from recollect.store import open_store
from recollect.store.exporting import export_file
from recollect.store.importing import ImportReport, import_file
from store import import_factories as make

HEADER = b'{"format":"recollect","version":1}'
EXAMPLES = settings(max_examples=100, deadline=None)
numbers = itertools.count()

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, -(2**63), 10**400, -1, 0])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "../../x", "\x1b[2J", "assistant", "note", "fresh", "\0"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=6) | st.sampled_from(["role", "content", "messages"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


class Ground:
    """One store that every example imports into; it must stay sound throughout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = open_store(folder / "store.db")
        stream = BytesIO()
        with open_store(folder / "source.db") as source:
            make.fill(source)
            export_file(source, None, stream=stream, format="jsonl", query=make.EVERYTHING)
        exported = [json.loads(line) for line in stream.getvalue().splitlines()]
        self.base = [line for line in exported if line.get("type") in ("run", "task", "note")]
        self.rows = [line for line in exported if line.get("type") == "trajectory"]
        self.links = [line for line in exported if line.get("type") == "link"]

    def load(self, data: bytes, **options: Any) -> ImportReport | None:
        """Import bytes; only our errors may come out."""
        path = self.folder / "file"
        path.write_bytes(data)
        try:
            report = import_file(self.store, path, **options)
        except RecollectError as error:
            refused = str(error)
        else:
            refused = ""
        assert refused.isprintable()
        if refused:
            return None
        assert len(report.bad) == min(100, report.bad_total)
        for bad in report.bad:
            assert bad.line >= 1
            assert bad.field
            assert bad.reason
            assert (bad.field + bad.reason).isprintable()
        return report

    def holds(self, id_: str) -> bool:
        return bool(self.store.frames([id_]))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = Ground(tmp_path_factory.mktemp("garbage"))
    yield ground
    assert list(ground.store.verify()) == []
    stream = BytesIO()
    report = export_file(ground.store, None, stream=stream, format="jsonl", query=make.EVERYTHING)
    assert report.skipped_total == 0
    ground.store.close()
    with open_store(ground.folder / "copy.db") as copied:
        (ground.folder / "file").write_bytes(stream.getvalue())
        assert import_file(copied, ground.folder / "file").bad == ()
        again = BytesIO()
        export_file(copied, None, stream=again, format="jsonl", query=make.EVERYTHING)
    assert again.getvalue() == stream.getvalue()


def spell(value: Any) -> bytes:
    """Write JSON, or what Python takes for it: NaN and lone surrogates included."""
    return json.dumps(value, ensure_ascii=True).encode()


@EXAMPLES
@given(
    data=st.binary(max_size=300),
    format_=st.sampled_from(["auto", "jsonl", "messages", "parquet"]),
    start=st.sampled_from([b"", HEADER + b"\n", b"PAR1", b"\xef\xbb\xbf", b"{", b"\n"]),
)
def test_arbitrary_bytes(ground: Ground, data: bytes, format_: str, start: bytes) -> None:
    report = ground.load(start + data, format=format_)
    assert report is None or report.added == 0


@EXAMPLES
@given(junk=st.lists(st.binary(max_size=60), min_size=1, max_size=5))
def test_bytes_between_good_lines(ground: Ground, junk: list[bytes]) -> None:
    ids = [f"good-{next(numbers)}" for _ in range(2)]
    first, last = (spell(make.message_line(id=id_)) for id_ in ids)
    report = ground.load(b"\n".join([first, *junk, last]))
    if first.startswith(b"{"):
        assert report is not None
        assert report.added == 2
        assert all(map(ground.holds, ids))


@EXAMPLES
@given(
    lines=st.lists(
        values
        | st.fixed_dictionaries(
            {},
            optional={
                "messages": values
                | st.lists(st.fixed_dictionaries({"role": values, "content": values})),
                "reward": values,
                "task": values,
                "id": values,
                "extra": values,
                "notes": values,
            },
        ),
        min_size=1,
        max_size=4,
    )
)
def test_arbitrary_json_as_messages(ground: Ground, lines: list[Any]) -> None:
    good = f"good-{next(numbers)}"
    data = b"\n".join([*map(spell, lines), spell(make.message_line(id=good))])
    report = ground.load(data, format="messages", default_reward=0.0)
    assert report is not None
    assert ground.holds(good)


@EXAMPLES
@given(
    lines=st.lists(
        values
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["run", "task", "trajectory", "note", "link"])},
            optional={"id": values, "run": values, "config": values, "content": values},
        ),
        min_size=1,
        max_size=4,
    )
)
def test_arbitrary_json_as_our_own(ground: Ground, lines: list[Any]) -> None:
    good = f"good-{next(numbers)}"
    row = spell(ground.rows[0] | {"id": good})
    data = b"\n".join([HEADER, *map(spell, ground.base), *map(spell, lines), row])
    report = ground.load(data)
    assert report is not None
    assert ground.holds(good)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything inside a value."""
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for key, inner in members:
        yield (*path, key)
        yield from places(inner, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, line: dict[str, Any]) -> dict[str, Any]:
    """Change one to three places of a line: replace, remove or rename."""
    changed = copy.deepcopy(line)
    for _ in range(draw(st.integers(1, 3))):
        spots = list(places(changed))
        if not spots:
            return changed
        *path, key = draw(st.sampled_from(spots))
        holder = changed
        for step in path:
            holder = holder[step]
        how = draw(st.sampled_from(["replace", "remove", "rename", "repeat"]))
        if how == "replace":
            holder[key] = draw(values)
        elif how == "repeat" and isinstance(holder[key], list):
            holder[key] = holder[key] * 2
        elif how == "rename" and isinstance(holder, dict):
            holder[draw(st.text(max_size=8)) or f"{key}s"] = holder.pop(key)
        else:
            del holder[key]
    return changed


@EXAMPLES
@given(data=st.data())
def test_mutated_rows_of_our_own(ground: Ground, data: st.DataObject) -> None:
    which = data.draw(st.sampled_from([*ground.rows, *ground.base, *ground.links]))
    name = f"mutant-{next(numbers)}"
    line = data.draw(mutated(which | ({"id": name} if which["type"] == "trajectory" else {})))
    good = f"good-{next(numbers)}"
    lines = [HEADER, *map(spell, ground.base), spell(line), spell(ground.rows[0] | {"id": good})]
    report = ground.load(b"\n".join(lines))
    assert report is not None
    assert ground.holds(good)


@EXAMPLES
@given(data=st.data())
def test_mutated_messages(ground: Ground, data: st.DataObject) -> None:
    make_line = data.draw(st.sampled_from([make.message_line, make.sampled_line]))
    line = data.draw(mutated(make_line(task="t", tools=[], notes=[], extra={"a": 1})))
    good = f"good-{next(numbers)}"
    report = ground.load(spell(line) + b"\n" + spell(make.message_line(id=good)), format="messages")
    assert report is not None
    assert ground.holds(good)


@EXAMPLES
@given(data=st.data())
def test_flipped_bytes(ground: Ground, data: st.DataObject) -> None:
    number = next(numbers)
    row = spell(
        ground.rows[data.draw(st.integers(0, len(ground.rows) - 1))] | {"id": f"m-{number:08d}"}
    )
    changed = bytearray(row)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    good = f"good-{number}"
    lines = [HEADER, *map(spell, ground.base), changed, spell(ground.rows[0] | {"id": good})]
    report = ground.load(b"\n".join(lines))
    assert report is not None
    assert ground.holds(good)
