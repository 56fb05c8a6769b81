from __future__ import annotations

import pytest

from recollect.config.loading import load_config
from recollect.doctor.finding import Change, Finding, change, first_changes

CONFIG = load_config("demo", []).config


def finding(*changes: Change) -> Finding:
    return Finding("replay", "something", "Something is wrong.", (), changes)


def settings(*findings: Finding) -> dict[str, object]:
    return {each.setting: each.to for each in first_changes(findings)}


def test_the_first_change_of_each_and_the_later_of_two() -> None:
    rate = [change(CONFIG, "train.learning_rate", to, "") for to in (1e-4, 4e-4)]
    epochs = change(CONFIG, "train.epochs", 4, "")
    assert settings(finding(rate[0], epochs), finding(), finding(rate[1])) == {
        "train.learning_rate": 4e-4
    }


@pytest.mark.parametrize("off", [True, False])
def test_what_would_change_nothing_without_replay_is_left_out(off: bool) -> None:
    modes: list[object] = [] if off else ["buffer"]
    found = settings(
        finding(change(CONFIG, "replay.start_rows", 64, "")),
        finding(change(CONFIG, "pool.max_age", 10, "")),
        finding(change(CONFIG, "replay.modes", modes, "")),
        finding(change(CONFIG, "train.epochs", 4, "")),
    )
    kept = {"replay.modes": modes, "train.epochs": 4}
    assert found == (kept if off else kept | {"replay.start_rows": 64, "pool.max_age": 10})
