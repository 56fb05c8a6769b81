"""The controller: down at once, up slowly, silent in between, and out of a rest again."""

from __future__ import annotations

import json

import pytest

from recollect.replay.controller import Controller, Measured, Targets, smoothed

TARGETS = Targets(ess=0.5, kl=0.1, memory=0.0, rest=2)
GOOD, BAD, MIDDLING = Measured(0.9, 0.01), Measured(0.3, 0.01), Measured(0.55, 0.01)


def test_it_begins_with_all_that_is_configured() -> None:
    controller = Controller(TARGETS)
    assert controller.level == 1.0
    assert controller.saw(GOOD) is None
    assert controller.level == 1.0


@pytest.mark.parametrize("measured", [BAD, Measured(0.9, 0.2)])
def test_either_target_lowers_it_and_says_why(measured: Measured) -> None:
    controller = Controller(TARGETS)
    said = controller.saw(measured)
    assert controller.level == pytest.approx(0.7)
    assert said is not None
    assert "1.00 -> 0.70" in said
    assert f"{measured.ess:.3f}" in said
    assert f"{measured.kl:.4f}" in said


def test_a_kl_that_nobody_asked_for_does_not_count() -> None:
    controller = Controller(Targets(0.5, None))
    assert controller.saw(Measured(0.9, 50.0)) is None


def test_in_between_nothing_moves() -> None:
    controller = Controller(TARGETS)
    controller.saw(BAD)
    assert controller.saw(MIDDLING) is None
    assert controller.saw(Measured(0.9, 0.09)) is None
    assert controller.level == pytest.approx(0.7)


def test_it_rises_slower_than_it_falls_and_never_above_one() -> None:
    controller = Controller(TARGETS)
    controller.saw(BAD)
    controller.saw(GOOD)
    assert 0.7 < controller.level < 1.0
    for _ in range(5):
        controller.saw(GOOD)
    assert controller.level == 1.0


def test_it_falls_back_to_fresh_rows_and_tries_again() -> None:
    controller = Controller(TARGETS)
    said = [controller.saw(BAD) for _ in range(7)]
    assert controller.level == 0.0
    assert "fresh rows only for 2 steps" in str(said[-1])
    assert controller.saw(None) is None
    assert "tried again" in str(controller.saw(None))
    assert controller.level == 0.25


def test_a_level_at_which_nothing_can_be_drawn_rises_again() -> None:
    controller = Controller(TARGETS)
    controller.saw(BAD)
    assert "no stored row could be drawn" in str(controller.saw(None, in_vain=True))
    assert controller.level > 0.7


def test_steps_that_wanted_no_row_or_trained_none_move_nothing() -> None:
    controller = Controller(TARGETS)
    controller.saw(BAD)
    assert [controller.saw(None) for _ in range(9)] == [None] * 9
    assert controller.level == pytest.approx(0.7)


def test_rows_that_all_drifted_lower_it_however_alike_their_ratios_are() -> None:
    controller = Controller(TARGETS)
    said = controller.saw(Measured(0.99, 0.01, all_drifted=True))
    assert controller.level == pytest.approx(0.7)
    assert "correction.drop_above" in str(said)


def test_memory() -> None:
    assert smoothed(None, 3.0, 0.9) == 3.0
    assert smoothed(1.0, 3.0, 0.75) == pytest.approx(1.5)
    controller = Controller(Targets(0.5, None, memory=0.9))
    controller.saw(GOOD)
    assert controller.saw(BAD) is None  # 0.84 on average


def test_its_state_goes_through_json() -> None:
    """Whatever was measured, a restored controller goes on exactly like the one that was saved."""
    one = Controller(Targets(0.5, 0.1, memory=0.37, rest=3))
    for number in range(9):
        one.saw(Measured(1 / (1 + number / 3), 0.013 * number))
        two = Controller(Targets(0.5, 0.1, memory=0.37, rest=3))
        two.restore(json.loads(json.dumps(one.state())))
        assert two.state() == one.state()
        probe = Measured(0.61, 0.07)
        assert two.saw(probe) == Controller.saw(_copy(one), probe)


def _copy(controller: Controller) -> Controller:
    found = Controller(Targets(0.5, 0.1, memory=0.37, rest=3))
    found.restore(controller.state())
    return found
