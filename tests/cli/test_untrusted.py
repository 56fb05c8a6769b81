"""Nothing that an agent wrote is obeyed by a terminal or a spreadsheet."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.cli.untrusted import safe_cell, visible, visible_json, visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]text[/bold]", "plain [bold]text[/bold]"),
        ("naïve 日本 😀", "naïve 日本 😀"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x00\x7f\x08", "\\x00\\x7f\\x08"),
        ("abc\u202edef", "abc\\u202edef"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("line\u2028end", "line\\u2028end"),
    ],
)
def test_control_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    kept = {"\u200c", "\u200d"}
    for line in visible_lines(text):
        hidden = {c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert hidden <= kept


def test_lines_keep_their_order_and_shape() -> None:
    assert visible_lines("one\r\ntwo\n\n\tthree\rfour") == ["one", "two", "", "    three\\rfour"]


@given(st.text())
def test_json_means_the_same_with_nothing_hidden(text: str) -> None:
    spelt = visible_json(json.dumps([text], ensure_ascii=False))
    assert json.loads(spelt) == [text]
    assert "\x1b" not in spelt
    assert all(c.isprintable() or c in "\u200c\u200d" or c.isspace() for c in spelt) or any(
        unicodedata.category(c) in ("Cn", "Co") for c in spelt
    )


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_formulas_get_a_quote(text: str) -> None:
    assert safe_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "a=1", "1+1", " =1", "ünï"])
def test_other_text_stays(text: str) -> None:
    assert safe_cell(text) == text
