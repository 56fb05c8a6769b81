from __future__ import annotations

from recollect.envs.tau2.identifiers import Counter, Identifiers, counting


def test_inside_they_repeat_and_outside_they_are_chance() -> None:
    ids = Identifiers()
    drawn = []
    for _ in range(2):
        with counting(Counter()):
            drawn.append([ids.uuid4().hex, ids.uuid4().hex])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 2
    assert ids.uuid4() != ids.uuid4()


def test_a_fork_goes_on_where_it_was_made() -> None:
    first = Counter()
    with counting(first):
        Identifiers().uuid4()
    forked = Counter(first.number)
    assert first.next() == forked.next()
