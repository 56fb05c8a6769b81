"""kl_anchor: stay near the policy of the previous domain.

    loss + anchor_coef KL(pi || pi_{i-1})

over the tokens that the policy samples in the new domain (Li and Hoiem 2016, Learning without
Forgetting, on policy; the divergence that forgetting follows in Shenfeld et al. 2025). The first
domain is trained as it is.
"""

from __future__ import annotations

from recollect.config.schema.config import Config
from recollect.continual.methods.sequential import Sequential


class KlAnchor(Sequential):
    """Measures the KL divergence of later stages from the model they begin with."""

    def settings(self, number: int, config: Config) -> Config:
        """Put the anchor in the place of the reference."""
        if number == 0:
            return config
        anchor = {
            "kl_coef": self.config.continual.anchor_coef,
            "kl_reference": None,
            "kl_revision": None,
        }
        return config.model_copy(update={"algo": config.algo.model_copy(update=anchor)})
