"""Text to values and back."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from recollect.canonical import Json
from recollect.config.scalars import BadScalar, parse_scalar, spell, spell_text
from recollect.config.tree import Source, plain
from recollect.config.yaml_reading import parse_value

SOURCE = Source("file", "a.yaml")

TABLE: list[tuple[str, Json]] = [
    ("1e-3", 1e-3),
    ("1E-3", 1e-3),
    ("1e3", 1000.0),
    ("-2.5", -2.5),
    ("+.5", 0.5),
    ("5.", 5.0),
    ("3", 3),
    ("-3", -3),
    ("+3", 3),
    ("0", 0),
    ("1_000_000", 1_000_000),
    ("true", True),
    ("True", True),
    ("FALSE", False),
    ("none", None),
    ("None", None),
    ("null", None),
    ("~", None),
    ("", None),
    ("off", "off"),
    ("yes", "yes"),
    ("tRue", "tRue"),
    ("010", "010"),
    ("1:30", "1:30"),
    ("0x10", "0x10"),
    ("2026-11-16", "2026-11-16"),
    ("1e", "1e"),
    ("1e-3x", "1e-3x"),
    ("Qwen/Qwen2.5-3B", "Qwen/Qwen2.5-3B"),
    ("1_0.5", "1_0.5"),
    ("٣", "٣"),
]


@pytest.mark.parametrize(("text", "value"), TABLE)
def test_words_numbers_and_text(text: str, value: Json) -> None:
    found = parse_scalar(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "9" * 19, "9" * 5000])
def test_numbers_that_nothing_can_hold(text: str) -> None:
    with pytest.raises(BadScalar):
        parse_scalar(text)


def test_the_largest_whole_number() -> None:
    assert parse_scalar(str(2**63 - 1)) == 2**63 - 1
    assert parse_scalar(str(1 - 2**63)) == 1 - 2**63


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (1e-8, "1.0e-08"),
        (0.001, "0.001"),
        (1.0, "1.0"),
        ("tiny", "tiny"),
        ("off", '"off"'),
        ("none", '"none"'),
        ("1e-3", '"1e-3"'),
        ("", '""'),
        ('a"b\\\n', '"a\\"b\\\\\\n"'),
        ("\x1b\u2028\U000e0001", '"\\x1b\\u2028\\U000e0001"'),
        ([1, "a", None], "[1, a, none]"),
        ({"a": {"b c": []}}, '{a: {"b c": []}}'),
    ],
)
def test_spelling(value: Json, text: str) -> None:
    assert spell(value) == text


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


def same(a: Json, b: Json) -> bool:
    """Equal with equal types, signs of zero included."""
    return repr(a) == repr(b)


@given(values)
def test_what_is_spelt_reads_back_the_same(value: Json) -> None:
    assert same(plain(parse_value(spell(value), SOURCE)), value)


@given(values)
def test_any_yaml_reader_finds_the_same(value: Json) -> None:
    assert same(yaml.safe_load(spell(value, null="null")), value)


@given(texts)
def test_text_never_becomes_anything_else(text: str) -> None:
    spelt = spell_text(text)
    assert spelt.isprintable()
    assert plain(parse_value(spelt, SOURCE)) == text


@given(st.text(max_size=30))
def test_any_word_is_read_or_refused(text: str) -> None:
    try:
        found = parse_scalar(text)
    except BadScalar:
        return
    assert not isinstance(found, float) or math.isfinite(found)
