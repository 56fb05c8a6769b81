"""Whatever somebody writes, they get a configuration or an error that we know by name."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.config import Config, as_yaml, load_config
from recollect.config.settings import all_settings
from recollect.errors import RecollectError

keys = st.sampled_from(list(all_settings()))
words = st.sampled_from(
    ["run", "steps", ":", ": ", "\n", "\n  ", "- ", "[", "]", "{", "}", ",", "'", '"', "&a", "*a",
     "!!int", "!", "|", ">", "#", "? ", "---", "...", "%YAML 1.1", "%TAG ! x", "<<", "1e-3", "none",
     "true", "~", ".nan", "\\x", '"\\U00110000"', "\ufeff", "\u2028", "\x85", "\t", "preset",
     "demo", "train", "eps", "environment", "options", "0", "-", "=", "@", "`"]
)  # fmt: skip
yamlish = st.lists(words | st.text(max_size=3), max_size=25).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "any.yaml"


def loads(source: object, flags: list[str]) -> None:
    """Load; a failure must be one that we know by name."""
    try:
        loaded = load_config(source, flags)  # type: ignore[arg-type]
    except RecollectError:
        return
    assert isinstance(loaded.config, Config)
    assert as_yaml(loaded.config)


@given(yamlish | st.text())
@example('a: "\\UFFFFFFFF"')
@example("%YAML 1." + "9" * 5000 + "\n---\n")
@example("a: !<tag:x,y> z")
@example("run: {steps: 1, steps: 2}")
@settings(max_examples=250)
def test_any_text_in_a_file(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    loads(file, [])


@given(st.binary(max_size=60))
def test_any_bytes_in_a_file(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    loads(file, [])


@given(keys, values)
@settings(max_examples=150)
def test_any_value_for_any_setting(key: str, value: object) -> None:
    nested: object = value
    for name in reversed(key.split(".")):
        nested = {name: nested}
    loads(nested, [])


@given(
    st.dictionaries(st.text(max_size=8) | st.sampled_from(["run", "preset"]), values, max_size=3)
)
def test_any_mapping(mapping: dict[str, object]) -> None:
    loads(mapping, [])


@given(st.builds("{}{}={}".format, keys, st.sampled_from(["", "+", ".x", ".x.y"]), yamlish))
@settings(max_examples=150)
def test_any_value_in_a_flag(flag: str) -> None:
    loads(None, [flag])


@given(st.lists(st.text(max_size=20), max_size=3))
def test_any_flags(flags: list[str]) -> None:
    loads("demo", flags)
