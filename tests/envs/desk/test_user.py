"""The scripted user answers what it is asked and gives nothing away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.envs.desk.environment import Desk
from recollect.envs.desk.goal import slot
from recollect.envs.desk.user import ScriptedUser

SLOTS = (slot("u31", "user", "id"), slot("my Rome flight", "booking", "which"))


def ask(text: str, seed: int = 0) -> str | None:
    return ScriptedUser("Cancel it.", SLOTS, seed).answer(text, 1)


def test_known_facts_are_told():
    assert "u31" in ask("What is your user id?")
    assert "my Rome flight" in ask("Which one?")
    both = ask("Your user id and booking?")
    assert "u31" in both
    assert "my Rome flight" in both


def test_other_questions_and_silence_get_the_request_again():
    assert ask("What is the weather?") == "Cancel it."
    assert ask("") == "Cancel it."
    assert ask(" \n") == "Cancel it."


def test_a_statement_ends_it_right_or_wrong():
    assert ask("Done.") is None
    assert ask("Sorry, basic.") is None
    assert ask("The user id is nice.") is None


def test_the_wording_follows_from_the_seed():
    answers = {ask("User id?", seed) for seed in range(30)}
    assert len(answers) == 3
    assert ask("User id?", 7) == ask("User id?", 7)


@given(st.text(), st.integers())
def test_any_text_gets_an_answer_or_an_end(text, seed):
    answer = ask(text, seed)
    assert (answer is None) == (bool(text.strip()) and "?" not in text)


def test_a_user_knows_every_detail_of_its_request():
    """Whatever the request says, asking for it brings it back."""
    desk = Desk(size=1)
    for id, question, part in (
        ("airline:1:seat:0", "Which seat?", {"window", "aisle", "middle"}),
        ("airline:3:move:0", "Which day?", {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}),
        ("retail:3:swap:0", "What color?", {"red", "blue", "green", "black", "white"}),
        ("telecom:3:plan:0", "What plan?", {"mini", "midi", "maxi"}),
    ):
        scenario = desk.scenario(id)
        (wanted,) = [p for p in part if p in scenario.request]
        user = ScriptedUser(scenario.request, scenario.slots, 0)
        assert wanted in user.answer(question, 1)


def test_who_does_not_say_who_they_are_tells_when_asked():
    desk = Desk(size=1)
    for kind in ("airline:2:ask.seat", "retail:4:ask.refund+wrap", "telecom:2:ask.topup"):
        for number in range(20):
            task = desk.task(f"{kind}:{number}")
            user_id = str(desk.scenario(task.id).calls[0].arguments["user"])
            assert user_id not in task.query
            (answer,) = desk.start(task, number).respond("What is your user id?").messages
            assert user_id in answer.text
