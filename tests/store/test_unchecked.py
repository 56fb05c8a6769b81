"""A record made without its checks is the same record."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from factories import make_trajectory
from recollect.store.unchecked import unchecked
from recollect.trajectory import Trajectory
from recollect.types import Segment, SegmentKind

ROW = make_trajectory(1)


@pytest.mark.parametrize("record", [ROW, ROW.segments[2], ROW.reward, ROW.sampling])
def test_it_equals_the_checked_record(record: Trajectory | Segment) -> None:
    kind = type(record)
    made = unchecked(kind)(*(getattr(record, field.name) for field in fields(record)))
    assert type(made) is kind
    assert made == record
    assert repr(made) == repr(record)
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(record)[0].name, None)
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(made, "surprise", 1)


def test_it_takes_every_field_and_checks_none() -> None:
    make = unchecked(Segment)
    assert make(SegmentKind.USER, 5, 2, "x", (), "", "").end == 2
    with pytest.raises(TypeError):
        make(SegmentKind.USER, 0, 1)
