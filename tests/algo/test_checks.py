import math

import pytest
import torch

from recollect.algo.checks import (
    check_finite,
    check_floating,
    check_index,
    check_range,
    check_same_shape,
    check_tokens,
)


def test_shapes_are_named_in_the_error() -> None:
    with pytest.raises(ValueError, match=r"one length, got logprobs\[3\], advantages\[2\]"):
        check_same_shape(logprobs=torch.zeros(3), advantages=torch.zeros(2))


def test_two_dimensions_and_scalars_are_refused() -> None:
    with pytest.raises(ValueError, match=r"losses\[2, 3\]"):
        check_same_shape(losses=torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"losses\[\]"):
        check_same_shape(losses=torch.tensor(1.0))


def test_a_length_of_one_does_not_broadcast() -> None:
    with pytest.raises(ValueError, match="one length"):
        check_same_shape(logprobs=torch.zeros(3), advantages=torch.zeros(1))


def test_dtypes() -> None:
    with pytest.raises(ValueError, match=r"rewards must be floating point, got torch\.int64"):
        check_floating(rewards=torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"groups must be int64, got torch\.int32"):
        check_index(groups=torch.zeros(2, dtype=torch.int32))
    with pytest.raises(ValueError, match=r"mask must be bool, got torch\.float32"):
        check_tokens(torch.ones(2), logprobs=torch.zeros(2))


def test_numbers() -> None:
    with pytest.raises(ValueError, match="rewards must be finite: 2 of 3 are not"):
        check_finite(rewards=torch.tensor([math.nan, 1.0, math.inf]))
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\], got 1.5"):
        check_range(0.0, 1.0, gamma=1.5)
    with pytest.raises(ValueError, match="got nan"):
        check_range(0.0, math.inf, low=math.nan)


def test_good_arguments_pass() -> None:
    check_same_shape()
    check_same_shape(one=torch.zeros(0), other=torch.zeros(0))
    check_tokens(torch.ones(2, dtype=torch.bool), logprobs=torch.zeros(2))
    check_range(0.0, math.inf, low=0.0, high=math.inf)
