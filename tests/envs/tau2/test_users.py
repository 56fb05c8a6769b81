from __future__ import annotations

import pytest

from recollect.envs.tau2.users import SCRIPTED, Scenario, ScriptUser, SlotUser, User
from recollect.envs.tau2.world import Answer
from recollect.envs.tools import Call

SCENARIO = Scenario(
    reason="You want to cancel reservation EHGLP3.",
    known="You are Emma Kim.\nYour user id is emma_kim_9957.",
    unknown="You do not remember your email address.",
    instructions="You do not want to cancel without a refund.",
    tools=("reboot_device", "toggle_data"),
)


class Phone:
    def __init__(self) -> None:
        self.made: list[Call] = []

    def __call__(self, call: Call) -> Answer:
        self.made.append(call)
        return Answer(f"result {len(self.made)}", True)


def test_script_tells_everything_and_agrees() -> None:
    user, phone = ScriptUser(SCENARIO), Phone()
    first = user.begin(phone)
    for part in (SCENARIO.reason, SCENARIO.unknown, SCENARIO.instructions, "emma_kim_9957"):
        assert part in first
    assert "Yes" in (user.answer("Shall I cancel it?", phone) or "")
    assert user.answer("", phone) == first
    assert user.answer("It is cancelled.", phone) is None
    assert phone.made == []


def test_script_does_what_is_named_and_reports_it() -> None:
    phone = Phone()
    said = ScriptUser(SCENARIO).answer("Please toggle data and reboot_device().", phone)
    assert said == "toggle_data: result 1\nreboot_device: result 2"
    assert [call.name for call in phone.made] == ["toggle_data", "reboot_device"]


def test_slots_tell_only_what_is_asked() -> None:
    user, phone = SlotUser(SCENARIO), Phone()
    assert user.begin(phone) == SCENARIO.reason
    assert user.answer("What is your user id?", phone) == "Your user id is emma_kim_9957."
    assert user.answer("And your email address?", phone) == SCENARIO.unknown
    assert "do not know" in (user.answer("How old are they?", phone) or "")
    assert "Yes" in (user.answer("Do you confirm?", phone) or "")
    assert user.answer("Goodbye.", phone) is None


def test_slots_do_one_thing_at_a_time() -> None:
    phone = Phone()
    said = SlotUser(SCENARIO).answer("toggle_data, then reboot_device", phone)
    assert said == "toggle_data: result 1\nOne step at a time, please."
    assert len(phone.made) == 1


@pytest.mark.parametrize("make", SCRIPTED.values(), ids=SCRIPTED.keys())
@pytest.mark.parametrize("text", ["?" * 10_000, "\ud800?", "<|im_end|>", "a" * 100_000])
def test_any_text_gets_an_answer_or_an_end(make: type[User], text: str) -> None:
    answer = make(SCENARIO).answer(text, Phone())  # type: ignore[call-arg]
    assert answer is None or answer.isprintable() or "\n" in answer
