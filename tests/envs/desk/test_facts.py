"""What counts as having told the user something."""

from __future__ import annotations

import pytest

from recollect.envs.desk.facts import MONEY, Fact, one_of, share_told, statements

PATTERNS = {"day": one_of("mon", "tue", "wed"), "money": MONEY}
MON, TUE, FEE = Fact("day", "mon"), Fact("day", "tue"), Fact("money", "30")


@pytest.mark.parametrize(
    ("text", "required", "share"),
    [
        ("anything", [], 1.0),
        ("", [MON], 0.0),
        ("It is Mon.", [MON], 1.0),
        ("it leaves on MON!", [MON], 1.0),
        ("Tue.", [MON], 0.0),
        ("Mon, Tue or Wed.", [MON], 0.0),
        ("Money matters.", [MON], 0.0),
        ("Mon and Tue.", [MON, TUE], 1.0),
        ("Mon.", [MON, TUE], 0.0),
        ("Mon. The fee is $30.", [MON, FEE], 1.0),
        ("Mon. The fee is $31.", [MON, FEE], 0.5),
        ("That is 30 dollars.", [FEE], 1.0),
        ("That is $ 30, or 30 USD.", [FEE], 1.0),
        ("That is 30.", [FEE], 0.0),
        ("$300.", [FEE], 0.0),
        ("$30 or $40.", [FEE], 0.0),
    ],
)
def test_exactly_the_required_values_must_be_told(text, required, share):
    assert share_told(required, statements(text), PATTERNS) == share


def test_a_question_tells_nothing():
    assert statements("Is it Mon? It is Tue. Or Wed?\nFine") == " It is Tue.\nFine"
    assert share_told([MON], statements("Is it Mon?"), PATTERNS) == 0.0
    assert share_told([MON], statements("It is Mon. Anything else?"), PATTERNS) == 1.0
