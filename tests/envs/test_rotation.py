from itertools import count, islice

from recollect.envs.rotation import in_turn


def test_lines_take_turns_and_drop_out_when_they_end() -> None:
    lines = [iter("abc"), iter(""), iter("1"), iter("xy")]
    assert "".join(in_turn(lines)) == "a1xbyc"
    assert list(in_turn([])) == []


def test_nothing_is_taken_before_it_is_asked_for() -> None:
    numbers = count()
    assert list(islice(in_turn([numbers, count(100)]), 3)) == [0, 100, 1]
    assert next(numbers) == 2
