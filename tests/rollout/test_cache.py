from __future__ import annotations

import torch

from recollect.rollout.cache import _GROWTH, SlotCache

CPU = torch.device("cpu")


def _new(rows: int, width: int, value: float) -> torch.Tensor:
    """Keys [B, 2, Q, 3] that say which row and column they came from."""
    row = torch.arange(rows)[:, None, None, None] * 100.0
    column = torch.arange(width)[None, None, :, None] * 1.0
    return (row + column + value).expand(rows, 2, width, 3).clone()


def test_tokens_are_right_aligned_and_stored_from_the_left() -> None:
    cache = SlotCache(4, CPU)
    feed = cache.begin([2, 0], [3, 1])
    assert feed.positions.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert feed.mask[0, 0].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert feed.mask[1, 0, -1].tolist() == [True, False, False]
    keys, values = cache.update(_new(2, 3, 0.0), _new(2, 3, 0.5), 0)
    assert keys[0, 0, :, 0].tolist() == [0.0, 1.0, 2.0]
    assert keys[1, 0, 0, 0].item() == 102.0  # the last column is its only token
    assert values[1, 1, 0, 2].item() == 102.5
    assert cache.lengths == [1, 0, 3, 0]


def test_a_row_is_continued_where_it_ended() -> None:
    cache = SlotCache(2, CPU)
    cache.begin([0, 1], [2, 3])
    cache.update(_new(2, 3, 0.0), _new(2, 3, 0.0), 0)
    feed = cache.begin([0, 1], [1, 1])
    assert feed.positions.tolist() == [[2], [3]]
    assert feed.mask[:, 0, 0].tolist() == [[True] * 3 + [False], [True] * 4]
    keys, _ = cache.update(_new(2, 1, 7.0), _new(2, 1, 7.0), 0)
    assert keys[0, 0, :3, 0].tolist() == [1.0, 2.0, 7.0]
    assert keys[1, 0, :, 0].tolist() == [100.0, 101.0, 102.0, 107.0]


def test_the_first_slots_are_a_view_and_others_a_copy() -> None:
    cache = SlotCache(3, CPU)
    cache.begin([0, 1, 2], [1, 1, 1])
    view, _ = cache.update(_new(3, 1, 0.0), _new(3, 1, 0.0), 0)
    cache.begin([0, 1], [1, 1])
    again, _ = cache.update(_new(2, 1, 5.0), _new(2, 1, 5.0), 0)
    assert again.data_ptr() == view.data_ptr()
    cache.begin([0, 2], [1, 1])
    other, _ = cache.update(_new(2, 1, 9.0), _new(2, 1, 9.0), 0)
    assert other.data_ptr() != view.data_ptr()
    assert other[1, 0, :2, 0].tolist() == [200.0, 109.0]


def test_a_past_is_copied_and_forgotten() -> None:
    cache = SlotCache(4, CPU)
    cache.begin([1], [3])
    cache.update(_new(1, 3, 1.0), _new(1, 3, 2.0), 0)
    cache.copy(1, [3, 0])
    assert cache.lengths == [3, 3, 0, 3]
    cache.begin([3, 0], [1, 1])
    keys, values = cache.update(_new(2, 1, 50.0), _new(2, 1, 60.0), 0)
    assert keys[:, 0, :, 0].tolist() == [[1.0, 2.0, 3.0, 50.0], [1.0, 2.0, 3.0, 150.0]]
    assert values[:, 0, :3, 0].tolist() == [[2.0, 3.0, 4.0]] * 2
    cache.release(3)
    assert cache.lengths == [4, 3, 0, 0]
    assert cache.begin([3], [1]).positions.tolist() == [[0]]


def test_it_grows_without_losing_anything() -> None:
    cache = SlotCache(2, CPU)
    for layer in (0, 1):
        if layer == 0:
            cache.begin([0, 1], [2, 2])
        cache.update(_new(2, 2, layer), _new(2, 2, layer), layer)
    cache.begin([0], [3 * _GROWTH])
    for layer in (0, 1):
        keys, _ = cache.update(_new(1, 3 * _GROWTH, 1000.0), _new(1, 3 * _GROWTH, 1000.0), layer)
        assert keys.shape[2] == 3 * _GROWTH + 2
        assert keys[0, 0, :3, 0].tolist() == [layer, layer + 1.0, 1000.0]
    cache.begin([1], [1])
    keys, _ = cache.update(_new(1, 1, 5.0), _new(1, 1, 5.0), 0)
    assert keys[0, 0, :, 0].tolist() == [100.0, 101.0, 5.0]
    assert cache.get_seq_length() == 3 * _GROWTH + 2


def test_room_that_was_never_filled_holds_numbers() -> None:
    # Masked, they count nothing; but nothing times NaN would be NaN.
    cache = SlotCache(2, CPU)
    cache.begin([0, 1], [1, 5])
    keys, values = cache.update(_new(2, 5, 0.0), _new(2, 5, 0.0), 0)
    assert torch.isfinite(keys).all()
    assert torch.isfinite(values).all()
