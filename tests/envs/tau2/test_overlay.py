from __future__ import annotations

import copy
import random

import pytest

from recollect.envs.tau2.overlay import Overlay, Pen


def _base() -> dict[str, dict[str, list[int]]]:
    return {f"k{n}": {"v": [n]} for n in range(6)}


@pytest.mark.parametrize("seed", range(30))
def test_it_behaves_as_a_copied_dictionary_and_leaves_the_base_alone(seed: int) -> None:
    rng = random.Random(seed)
    base, before = _base(), _base()
    pen = Pen()
    pen.down = True
    table, plain = Overlay(base, pen), copy.deepcopy(base)
    for number in range(40):
        key = f"k{rng.randrange(9)}"
        action = rng.randrange(5)
        if action == 0 and key in plain:
            table[key]["v"].append(number)
            plain[key]["v"].append(number)
        elif action == 1:
            table[key] = {"v": [number]}
            plain[key] = {"v": [number]}
        elif action == 2:
            assert table.pop(key, None) == plain.pop(key, None)
        elif action == 3:
            for one, other in zip(table.values(), plain.values(), strict=True):
                one["v"].append(number)
                other["v"].append(number)
        else:
            assert (key in table, table.get(key)) == (key in plain, plain.get(key))
        assert list(table.items()) == list(plain.items())
        assert len(table) == len(plain)
    assert base == before


def test_what_was_changed_is_in_touched() -> None:
    base, pen = _base(), Pen()
    table = Overlay(base, pen)
    assert table["k1"] is base["k1"]  # reading shares
    assert next(iter(table.values())) is base["k0"]
    assert table.touched == frozenset()
    pen.down = True
    assert table["k1"] is not base["k1"]
    del table["k2"]
    table["new"] = {"v": []}
    assert table.touched == {"k1", "k2", "new"}


def test_what_is_not_there_raises_as_a_dictionary_does() -> None:
    table = Overlay({"a": 1}, Pen())
    for key in ("b", "a"):
        table.pop(key, None)
        with pytest.raises(KeyError):
            table[key]
        with pytest.raises(KeyError):
            del table[key]


def test_an_overlay_over_an_overlay() -> None:
    first, second = Pen(), Pen()
    below = Overlay(_base(), first)
    first.down = True
    below["k0"]["v"] = [99]
    first.down = False
    above = Overlay(below, second)
    second.down = True
    above["k0"]["v"].append(1)
    assert (above["k0"]["v"], below["k0"]["v"]) == ([99, 1], [99])
    assert above.touched == {"k0"}
