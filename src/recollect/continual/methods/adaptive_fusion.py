"""adaptive_fusion: search the shares of the merged model on dev tasks.

    theta(w) = sum_k w_k theta_k,  w* = argmax_w of the mean score over domains k <= i

Candidates are equal shares and draws from [0, 2], normalised. Each is really merged and really
tried, on tasks that nothing else is examined on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.continual import merging
from recollect.continual.fisher import Weights
from recollect.continual.methods.fusion import Figures, Fusion, by_shares, put
from recollect.models.loading import Policy


class AdaptiveFusion(Fusion):
    """Merges by the best of several shares, whatever the rule of plain fusion is."""

    @property
    def weighs_by_fisher(self) -> bool:
        """Shares are searched; nothing else weighs."""
        return False

    @property
    def searches(self) -> bool:
        """Every candidate is tried."""
        return True

    def merge(
        self,
        number: int,
        policy: Policy,
        models: Sequence[Weights],
        folder: Path,
    ) -> tuple[Weights, Figures]:
        """Try every candidate; the first of the best wins."""
        domains = self.journey.order[: number + 1]
        if number == 0:
            return models[0], {"share_0": 1.0, "search_score": self.score(policy, domains)}
        count, seed = self.config.continual.fusion.candidates, self.config.run.seed
        best: tuple[float, Weights, Figures] | None = None
        for shares in merging.candidate_shares(len(models), count, seed):
            merged, figures = by_shares(models, shares)
            put(policy, merged)
            found = self.score(policy, domains)
            if best is None or found > best[0]:
                best = found, merged, {**figures, "search_score": found}
        assert best is not None
        return best[1], best[2]
