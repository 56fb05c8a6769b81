"""What a person sees: colour and short ids on a terminal, nothing obeyed, plain on request."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import AIRLINE, Filled, make_trajectory
from .test_pool_show import HOSTILE, keep

pty = pytest.importorskip("pty")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    *arguments: object, columns: int = 120, typed: bytes = b"", **variables: str
) -> str:
    """Run the command line on a terminal of its own and return what it wrote there."""
    call = ("-m", "recollect", *arguments)
    return run_on_terminal(*call, columns=columns, typed=typed, **variables)


def run_on_terminal(*arguments: object, columns: int, typed: bytes = b"", **variables: str) -> str:
    """The same of any call of Python."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "RECOLLECT_STORE")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": str(columns)} | variables
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    assert process.wait(60) == 0, written.decode()
    return written.decode().replace("\r\n", "\n")


def test_ids_are_short_and_the_table_is_coloured(filled: Filled) -> None:
    text = on_terminal("pool", "ls", "--store", filled.path)
    assert COLOUR.search(text)
    assert filled.items[0].id[:10] in text
    assert filled.items[0].id not in text
    assert "domain" in text


def test_a_narrow_terminal_shows_fewer_columns_and_whole_lines(filled: Filled) -> None:
    text = COLOUR.sub("", on_terminal("pool", "ls", "--store", filled.path, columns=80))
    assert "tokens" not in text
    assert "status" in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())


def test_a_narrow_terminal_has_intervals_and_sentences_in_one_piece() -> None:
    program = (
        "from recollect.cli.output import Column, say_prose, write_table\n"
        "write_table([Column('median [95% interval]', narrow='stack'), Column('a', narrow='stack'),"
        " Column('b', narrow='stack')], [['success', '1.5% [1.0%, 2.0%]', '2.5% [2.0%, 3.0%]']])\n"
        "say_prose('word ' * 20)"
    )
    wide, narrow = (
        [
            line.split()
            for line in COLOUR.sub("", run_on_terminal("-c", program, columns=n)).splitlines()
        ]
        for n in (80, 50)
    )
    assert ["success", "1.5%", "[1.0%,", "2.0%]", "2.5%", "[2.0%,", "3.0%]"] in wide
    assert ["success", "1.5%", "2.5%"] in narrow
    assert ["[1.0%,", "2.0%]", "[2.0%,", "3.0%]"] in narrow
    assert narrow.count(["word"] * 10) == 2


@pytest.mark.parametrize("variable", ["RECOLLECT_PLAIN", "TERM"])
def test_plain_on_request(filled: Filled, variable: str) -> None:
    value = {"RECOLLECT_PLAIN": "1", "TERM": "dumb"}[variable]
    text = on_terminal("pool", "ls", "--store", filled.path, **{variable: value})
    assert "\x1b" not in text
    assert filled.items[0].id in text


def test_a_hostile_conversation_cannot_do_anything(tmp_path: Path) -> None:
    item = make_trajectory(0, AIRLINE[0], text=HOSTILE)
    keep(tmp_path / "s.db", item)
    text = on_terminal("pool", "show", item.id, "--store", tmp_path / "s.db", "--logprobs")
    assert COLOUR.search(text)
    rest = COLOUR.sub("", text)
    assert not set("\x1b\x9b\x07\x00\x08\x7f\r\u202e") & set(rest)
    assert "[bold red]markup[/]" in rest
    assert ":smile:" in rest
    assert "\\x1b[31mred" in rest


def test_csv_on_a_terminal_is_made_visible(filled: Filled) -> None:
    ask = "SELECT char(27) || '[2J' AS x"
    text = on_terminal("pool", "sql", ask, "--csv", "--store", filled.path)
    assert text == "x\n\\x1b[2J\n"


def test_verify_shows_that_it_works(filled: Filled) -> None:
    text = on_terminal("pool", "verify", "--store", filled.path)
    assert "is sound" in text


def test_playing_says_how_to_type_a_call() -> None:
    shown = on_terminal("env", "play", "desk", "--task", "airline:1:bags:0", typed=b"\x04")
    assert "Type /find user=VALUE for a call, anything else as a message." in shown
