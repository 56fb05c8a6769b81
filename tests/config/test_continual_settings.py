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
