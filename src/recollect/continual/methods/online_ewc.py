"""online_ewc: one running Fisher information, one anchor (Schwarz et al. 2018, 1805.06370).

    F_i <- gamma F_{i-1} + F_new        loss + lambda / 2 sum_n F_n (theta_n - theta*_n)^2

theta* are the weights after the previous domain: memory does not grow with the number of domains,
and gamma < 1 lets the oldest go gracefully.
"""

from __future__ import annotations

from recollect.continual.fisher import Weights
from recollect.continual.holding import Hold
from recollect.continual.methods.ewc import Ewc


class OnlineEwc(Ewc):
    """Holds all earlier domains by one penalty."""

    def holds(self, number: int) -> list[Hold]:
        """What a stage is held by: the newest hold, which contains the others."""
        return [self.hold(number - 1)]

    def combined(self, number: int, new: Weights) -> Weights:
        """Let the earlier information fade and add the new."""
        if number == 0:
            return new
        gamma, before = self.config.continual.ewc.gamma, self.hold(number - 1).fisher
        return {name: gamma * before[name].to(value.device) + value for name, value in new.items()}
