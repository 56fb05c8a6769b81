"""Cut weights as a process of a run has them: with its link to the others, and as the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import torch

from recollect.engines.link import Link
from recollect.engines.messages import Apply, Gather, Lend
from recollect.models.loading import Policy
from recollect.train.sharding import (
    clip_scale,
    gathered,
    scale_gradients,
    shard,
    sum_of_squares,
)


class Slices:
    """One process's part of the cut weights (see `train.sharding.Shards`)."""

    def __init__(self, link: Link, policy: Policy) -> None:
        self._link = link
        self._policy = policy
        with link.passing():
            shard(policy)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Have all weights gathered inside; everybody enters."""
        with ExitStack() as stack:
            with self._link.passing():
                stack.enter_context(gathered(self._policy.model))
            yield

    def passing(self) -> AbstractContextManager[None]:
        """Name a process that is lost in a pass."""
        return self._link.passing()

    def passes(self, mine: int) -> int:
        """Tell how many passes the process that has most of them makes."""
        return self._link.most(mine)


class LedSlices(Slices):
    """The leader's part: it tells the helpers before it does anything that needs them.

    `order` sends something to all of them. `squares` are those of the helpers' gradients, as they
    came with the last of their answers.
    """

    def __init__(
        self, link: Link, policy: Policy, order: Callable[[Gather | Apply | Lend], None]
    ) -> None:
        super().__init__(link, policy)
        self._order = order
        self._scale = 1.0
        self.squares = 0.0

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Gather all weights with the helpers, for passes that are the leader's alone."""
        self._order(Gather())
        with super().whole():
            yield

    def together(self) -> AbstractContextManager[None]:
        """Gather all weights for something that the helpers have been told to do as well."""
        return super().whole()

    def clip(self, parameters: Sequence[torch.nn.Parameter], most: float) -> float:
        """Scale our slices' gradient; the helpers hear of it when the step is applied."""
        norm, self._scale = clip_scale(sum_of_squares(parameters) + self.squares, most)
        scale_gradients(parameters, self._scale)
        return norm

    def apply(self, rate: float) -> None:
        """Have the helpers take the same step."""
        self._order(Apply(rate, self._scale))

    def lend(self) -> None:
        """Have the helpers hand their slices over while we save."""
        self._order(Lend())
