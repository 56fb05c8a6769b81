"""The section `continual`: what goes together and what does not."""

import pytest

from recollect.config import load_config
from recollect.errors import BadConfig


@pytest.mark.parametrize(
    ("flags", "low", "high"),
    [
        (["smallest=40"], "smallest", "largest"),
        (["hard_below=0.7"], "hard_below", "easy_above"),
    ],
)
def test_hard_domains_get_wider_columns(flags: list[str], low: str, high: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load_config("domains", [f"continual.columns.{flag}" for flag in flags])
    assert f"continual.columns.{low} at or below continual.columns.{high}" in str(caught.value)


def test_limits_may_coincide() -> None:
    columns = ("smallest=32", "hard_below=0.6")
    load_config("domains", [f"continual.columns.{flag}" for flag in columns])


@pytest.mark.parametrize(
    ("flag", "limit"),
    [("ratio=0.8", "max_ratio"), ("ratio=0", "min_ratio"), ("max_ratio=0.15", "max_ratio")],
)
def test_an_adaptive_share_begins_within_its_limits(flag: str, limit: str) -> None:
    """From beyond them its first step would go the wrong way: less where domains are lost."""
    flags = [f"continual.replay.{flag}", "continual.method=adaptive_replay"]
    with pytest.raises(BadConfig, match="and begins with") as caught:
        load_config("domains", flags)
    assert f"or move continual.replay.{limit}" in str(caught.value)
    load_config("domains", [flags[0], "continual.method=replay"])


def test_an_adaptive_share_may_begin_at_a_limit() -> None:
    for share in (0.1, 0.5):
        flags = ["continual.method=adaptive_replay", f"continual.replay.ratio={share}"]
        load_config("domains", flags)
