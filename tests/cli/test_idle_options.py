"""Options that would do nothing beside others are refused, before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import invoke


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("env play desk --task airline:4:seat:0 --level 4", "--task names the task"),
        ("env play desk --task airline:4:seat:0 --split test", "--task names the task"),
        ("env ls desk --json --markdown", "one of --markdown and --json"),
        ("compare demo --json --verbose", "--verbose is for the tables"),
        ("pool show 3f --segments --logprobs", "one of --logprobs and --segments"),
        ("pool show 3f --segments --json", "--json has everything"),
        ("pool show 3f --logprobs --json", "--json has everything"),
        ("notes serve --read-only --trust 0.5", "sent in"),
        ("notes serve --read-only --threshold 1.0", "sent in"),
        ("resume runs/demo-1 --runs elsewhere", "RUN names one"),
        ("pool export a.jsonl --no-tokens", "--no-tokens goes with --format messages"),
        ("pool export - --format parquet --no-tokens", "--no-tokens goes with --format messages"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    command: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*command.split())
    assert result.exit_code == 2, result.output
    said = " ".join(word for word in result.stderr.split() if word not in "│╭╮╰╯")
    assert words in said
    assert list(tmp_path.iterdir()) == []
