"""YAML with line numbers and without surprises."""

import time
from pathlib import Path

import pytest

from recollect.config import load_config
from recollect.config.tree import Branch, Leaf, Source, plain
from recollect.config.yaml_reading import MAX_BYTES, decode_yaml, parse_yaml
from recollect.errors import BadConfig, BadConfigFile

SOURCE = Source("file", "a.yaml")


def test_every_key_knows_its_line() -> None:
    tree = parse_yaml("# c\nrun:\n  steps: 3\n\n  name:\n    x\ntrain: {eps: 1e-3}\n", SOURCE)
    run = tree.entries["run"]
    assert isinstance(run, Branch)
    assert run.source.line == 2
    assert run.entries["steps"] == Leaf(3, Source("file", "a.yaml", 3))
    assert run.entries["name"] == Leaf("x", Source("file", "a.yaml", 5))
    assert plain(tree) == {"run": {"steps": 3, "name": "x"}, "train": {"eps": 1e-3}}


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "~", "{}"])
def test_nothing_is_no_settings(text: str) -> None:
    assert parse_yaml(text, SOURCE).entries == {}


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("run:\n  steps: 1\n  steps: 2\n", 3, "'steps' is given twice, first in line 2"),
        ("run: {a: 1}\n'run': {}\n", 2, "given twice"),
        ("a: &x 1\nb: *x\n", 1, "an anchor"),
        ("a: 1\nb: *x\n", 2, "the alias *x"),
        ("a: &x {}\n", 1, "an anchor"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "a tag"),
        ("a: !!int '3'\n", 1, "a tag"),
        ("a: !!str 3\n", 1, "a tag"),
        ("a: !x {}\n", 1, "a tag"),
        ("? [1]\n: 2\n", 1, "a key must be a word"),
        ("&k a: 1\n", 1, "a key must be a word"),
        ("*k : 1\n", 1, "a key must be a word"),
        ("- 1\n", 1, "expected sections"),
        ("\njust text\n", 2, "expected sections"),
        ("a: 1\n---\nb: 2\n", 2, "a second document"),
        ("run:\n  steps: [1\n", 3, "not valid YAML"),
        ("run:\n\tsteps: 1\n", 2, "not valid YAML"),
        ("a: 'x\n", 2, "not valid YAML"),
        ("a: b: c\n", 1, "not valid YAML"),
        ("a: 1\nb: \x07\n", 2, "does not allow"),
        ("a: 1\nb: .inf\n", 2, "not a finite number"),
        ("a: " + "9" * 5000 + "\n", 1, "64 bits"),
        ('a: "\\ud800"\n', 1, "surrogate"),
        ('"\\udfff": 1\n', 1, "surrogate"),
        ("a: " + "[" * 40 + "]" * 40 + "\n", 1, "deeper than 30"),
        ("%YAML 2.0\n---\na: 1\n", 1, "not valid YAML"),
    ],
)  # fmt: skip
def test_refusals_name_the_line(text: str, line: int, what: str) -> None:
    with pytest.raises(BadConfigFile) as caught:
        parse_yaml(text, SOURCE)
    assert what in caught.value.what
    assert caught.value.where == f"a.yaml:{line}"
    assert caught.value.hint


def test_escapes_beyond_unicode_are_refused() -> None:
    with pytest.raises(BadConfigFile, match=r"a.yaml: is not valid YAML"):
        parse_yaml('a: "\\UFFFFFFFF"\n', SOURCE)


def test_bytes_must_be_utf8() -> None:
    assert decode_yaml("\ufeffa: é".encode(), SOURCE) == "a: é"
    with pytest.raises(BadConfigFile, match=r"a.yaml:2: is not UTF-8"):
        decode_yaml(b"a: 1\nb: \xff\n", SOURCE)


def test_size_is_bounded() -> None:
    with pytest.raises(BadConfigFile, match="256 kB"):
        decode_yaml(b" " * (MAX_BYTES + 1), SOURCE)


@pytest.mark.parametrize(
    "text",
    [
        "[" * MAX_BYTES,
        "{a: " * (MAX_BYTES // 4),
        "- " * (MAX_BYTES // 2),
        "a: &a [x]\n" + "".join(f"k{n}: &k{n} [*a, *a]\n" for n in range(5000)),
        "? " * (MAX_BYTES // 2),
    ],
)
def test_bombs_are_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BadConfigFile):
        parse_yaml(text, SOURCE)
    assert time.process_time() - started < 5


def test_text_in_quotes_and_blocks_stays_text() -> None:
    tree = parse_yaml("a: '1'\nb: \"none\"\nc: |\n  3\nd: >-\n  true\n", SOURCE)
    assert plain(tree) == {"a": "1", "b": "none", "c": "3\n", "d": "true"}


@pytest.mark.parametrize("key", ["run.folder", "store.path", "pool.start_from", "model.name"])
def test_no_setting_may_hold_a_nul(tmp_path: Path, key: str) -> None:
    section, _, name = key.partition(".")
    path = tmp_path / "nul.yaml"
    path.write_text(f'{section}:\n  {name}: "a\\0b"\n', encoding="utf-8")
    with pytest.raises(BadConfig, match="NUL"):
        load_config(path)
