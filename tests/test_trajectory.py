"""The border check of a trajectory: whatever its docstring promises, tried the other way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from factories import make_trajectory
from recollect.errors import InvalidRecord
from recollect.store.unchecked import unchecked
from recollect.trajectory import Trajectory
from recollect.types import NoteId, NoteSpan, Origin, Reward, Segment, SegmentKind

ASSISTANT, NOTE, USER = SegmentKind.ASSISTANT, SegmentKind.NOTE, SegmentKind.USER


def values(trajectory: Trajectory) -> dict[str, Any]:
    return {f.name: getattr(trajectory, f.name) for f in fields(trajectory)}


def six(**changes: Any) -> dict[str, Any]:
    """Six tokens: two of a user, a note of one, three of the assistant, two of them sampled."""
    base = values(make_trajectory(1))
    base |= {
        "tokens": np.arange(6, dtype=np.int32),
        "sampled": np.array([0, 0, 0, 1, 0, 1], dtype=np.bool_),
        "logprobs": np.array([-0.5, -0.25], dtype=np.float32),
        "entropies": np.array([0.5, 0.0], dtype=np.float32),
        "segments": (Segment(USER, 0, 2), Segment(NOTE, 2, 3), Segment(ASSISTANT, 3, 6)),
        "notes": (),
    }
    return base | changes


def f4(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(InvalidRecord) as caught:
        make()
    assert caught.value.field in str(caught.value)
    return caught.value.field


def test_the_base_case_is_valid() -> None:
    row = Trajectory(**six())
    assert row.sampled_count == 2
    assert row.mean_entropy == pytest.approx(0.25)
    assert row.mean_logprob == pytest.approx(-0.375)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": "no/path"}, "id"),
        ({"task": ""}, "task"),
        ({"run": None}, "run"),
        ({"group": "a b"}, "group"),
        ({"step": -1}, "step"),
        ({"step": 2**31}, "step"),
        ({"origin": "fresh"}, "origin"),
        ({"stop": "done"}, "stop"),
        ({"success": 1}, "success"),
        ({"success": None}, "success"),
        ({"reward": 1.0}, "reward"),
        ({"reward": None}, "reward"),
        ({"sampling": (1.0, 1.0, 0, 0)}, "sampling"),
        ({"tokenizer": None}, "tokenizer"),
        ({"environment_version": 1}, "environment_version"),
        ({"reward_version": "\ud800"}, "reward_version"),
        ({"started": float("nan")}, "started"),
        ({"finished": None}, "finished"),
        ({"extra": []}, "extra"),
        ({"extra": {"a": float("nan")}}, "extra"),
        ({"extra": {"a": (1, 2)}}, "extra"),
        ({"extra": {"a": {"b": MappingProxyType({})}}}, "extra"),
        ({"extra": {"big": 10**5000}}, "extra"),
    ],
)
def test_scalars(changes: dict[str, Any], field: str) -> None:
    assert refused(lambda: Trajectory(**six(**changes))) == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tokens": [0, 1, 2, 3, 4, 5]}, "tokens"),
        ({"tokens": np.arange(6, dtype=np.float32)}, "tokens"),
        ({"tokens": np.arange(6, dtype=np.uint8)}, "tokens"),
        ({"tokens": np.arange(6, dtype=">i4")}, "tokens"),
        ({"tokens": np.arange(6, dtype=np.int32).reshape(2, 3)}, "tokens"),
        ({"tokens": np.array([0, 1, 2, 3, 4, -1], dtype=np.int32)}, "tokens"),
        ({"tokens": np.array([0, 1, 2, 3, 4, 2**31])}, "tokens"),
        ({"tokens": np.array([0, 1, 2, 3, 4, -1])}, "tokens"),
        ({"tokens": np.array([0, 1, 2, 3, 4, -(2**63)])}, "tokens"),  # abs() of it is itself
        ({"tokens": np.array([0, 1, 2, 3, 4, -(2**32)])}, "tokens"),  # would wrap to 0
        ({"sampled": np.array([0, 0, 0, 1, 0, 1])}, "sampled"),
        ({"sampled": np.zeros(5, dtype=np.bool_)}, "sampled"),
        ({"logprobs": np.array([-0.5, -0.25])}, "logprobs"),
        ({"logprobs": [-0.5, -0.25]}, "logprobs"),
        ({"logprobs": f4(-0.5)}, "logprobs"),
        ({"logprobs": f4(-0.5, -0.5, -0.5)}, "logprobs"),
        ({"logprobs": f4(-0.5, np.nan)}, "logprobs"),
        ({"logprobs": f4(-0.5, -np.inf)}, "logprobs"),
        ({"logprobs": f4(-0.5, 0.001)}, "logprobs"),
        ({"entropies": f4(0.5)}, "entropies"),
        ({"entropies": f4(0.5, np.inf)}, "entropies"),
        ({"entropies": f4(0.5, np.nan)}, "entropies"),
        ({"entropies": f4(0.5, -0.001)}, "entropies"),
    ],
)
def test_arrays(changes: dict[str, Any], field: str) -> None:
    assert refused(lambda: Trajectory(**six(**changes))) == field


def test_rounding_of_a_float32_log_prob_is_tolerated() -> None:
    assert Trajectory(**six(logprobs=f4(1e-6, -0.0))).mean_logprob == pytest.approx(5e-7)


@pytest.mark.parametrize(
    ("segments", "field"),
    [
        ((), "segments"),
        ([Segment(ASSISTANT, 0, 6)], "segments"),
        (("text",), "segments"),
        (((ASSISTANT, 0, 6),), "segments"),
        ((Segment(ASSISTANT, 0, 5),), "segments"),
        ((Segment(ASSISTANT, 0, 7),), "segments"),
        ((Segment(ASSISTANT, 1, 6),), "segments[0]"),
        ((Segment(USER, 0, 3), Segment(ASSISTANT, 4, 6)), "segments[1]"),
        ((Segment(USER, 0, 3), Segment(ASSISTANT, 2, 6)), "segments[1]"),
        ((Segment(USER, 0, 6), Segment(ASSISTANT, 6, 3)), "segments[1]"),
    ],
)
def test_segments_tile_the_tokens(segments: Any, field: str) -> None:
    assert refused(lambda: Trajectory(**six(segments=segments))) == field


@pytest.mark.parametrize("kind", [k for k in SegmentKind if k is not ASSISTANT])
def test_only_assistant_tokens_are_sampled(kind: SegmentKind) -> None:
    segments = (Segment(USER, 0, 5), Segment(kind, 5, 6))
    assert refused(lambda: Trajectory(**six(segments=segments))) == "sampled"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"logprobs": None}, "logprobs"),
        ({"policy_version": None}, "policy_version"),
        ({"policy_version": -1}, "policy_version"),
        ({"policy_version": 1.0}, "policy_version"),
        ({"sampling": None}, "sampling"),
        ({"tokenizer": ""}, "tokenizer"),
        (
            {"sampled": np.zeros(6, dtype=np.bool_), "logprobs": f4(), "entropies": f4()},
            "sampled",
        ),
        ({"origin": Origin.GUIDED}, "notes"),
        ({"origin": Origin.DEMO}, "logprobs"),
        ({"origin": Origin.DEMO, "logprobs": None}, "policy_version"),
    ],
)
def test_what_each_origin_needs(changes: dict[str, Any], field: str) -> None:
    assert refused(lambda: Trajectory(**six(**changes))) == field


def test_a_demo_may_be_text_only() -> None:
    nothing = np.zeros(0, dtype=np.int32)
    row = Trajectory(
        **six(
            origin=Origin.DEMO,
            policy_version=None,
            tokens=nothing,
            sampled=nothing.astype(np.bool_),
            logprobs=None,
            entropies=None,
            segments=(Segment(USER, 0, 0, "hello"), Segment(ASSISTANT, 0, 0, "hi")),
            sampling=None,
            tokenizer="",
        )
    )
    assert row.sampled_count == 0
    assert row.mean_entropy is None
    assert row.mean_logprob is None


@pytest.mark.parametrize(
    "notes",
    [
        (NoteSpan(NoteId("n"), 0, 2),),  # a user's span
        (NoteSpan(NoteId("n"), 2, 4),),  # beyond the note
        [NoteSpan(NoteId("n"), 2, 3)],
        ("n",),
        None,
    ],
)
def test_notes_stand_in_note_segments(notes: Any) -> None:
    assert refused(lambda: Trajectory(**six(notes=notes))) == "notes"


def test_a_guided_row_names_its_notes() -> None:
    row = Trajectory(**six(origin=Origin.GUIDED, notes=(NoteSpan(NoteId("n"), 2, 3),)))
    assert row.notes[0].note == "n"


# -- frozen --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tokens", "sampled", "logprobs", "entropies"])
def test_arrays_are_private_and_read_only(name: str) -> None:
    given = six()
    row = Trajectory(**given)
    before = getattr(row, name).copy()
    given[name][:] = 0
    assert np.array_equal(getattr(row, name), before)
    with pytest.raises(ValueError, match="read-only"):
        getattr(row, name)[0] = 1


def test_a_read_only_view_of_a_writable_array_is_copied() -> None:
    buffer = np.arange(6, dtype=np.int32)
    view = buffer[:]
    view.setflags(write=False)
    row = Trajectory(**six(tokens=view))
    buffer[0] = 5
    assert row.tokens[0] == 0


def test_an_array_that_nobody_can_write_is_shared() -> None:
    tokens = np.frombuffer(np.arange(6, dtype=np.int32).tobytes(), dtype=np.int32)
    assert np.shares_memory(Trajectory(**six(tokens=tokens)).tokens, tokens)


def test_a_strided_array_is_made_contiguous() -> None:
    tokens = np.arange(12, dtype=np.int32)[::2]
    tokens.setflags(write=False)
    assert Trajectory(**six(tokens=tokens)).tokens.flags.c_contiguous


def test_extra_is_a_copy() -> None:
    extra = {"turns": 1}
    row = Trajectory(**six(extra=extra))
    extra["turns"] = 2
    assert row.extra == {"turns": 1}


def test_wider_tokens_are_narrowed_without_change() -> None:
    row = Trajectory(**six(tokens=np.array([0, 1, 2, 3, 4, 2**31 - 1])))
    assert row.tokens.dtype == np.dtype("<i4")
    assert row.tokens.tolist() == [0, 1, 2, 3, 4, 2**31 - 1]


# -- equality ------------------------------------------------------------------------------


def test_equal_when_every_field_is() -> None:
    one, other = make_trajectory(3), make_trajectory(3)
    assert one == other
    assert hash(one) == hash(other)
    assert one != "something else"


@pytest.mark.parametrize("name", [f.name for f in fields(Trajectory)])
def test_one_different_field_makes_them_unequal(name: str) -> None:
    base = values(make_trajectory(3))
    other = dict(base)
    other[name] = _other(base[name])
    anything = unchecked(Trajectory)
    assert anything(**base) != anything(**other)


def _other(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        changed = value.copy()
        changed[0] = not changed[0] if changed.dtype == np.bool_ else changed[0] + 1
        return changed
    if isinstance(value, Reward):
        return Reward(value.value, {"goal": 9.0})
    return [value]


def test_equality_is_bit_for_bit() -> None:
    zero, minus_zero = six(logprobs=f4(0.0, -1.0)), six(logprobs=f4(-0.0, -1.0))
    assert Trajectory(**zero) != Trajectory(**minus_zero)
