"""sft: imitate gold attempts, domain after domain, instead of learning from rewards.

sequential with `continual.imitate`; `recollect.continual.imitation` has the loss. It is here
because it forgets where reinforcement learning may not (Shenfeld et al. 2025, RL's Razor; Chen et
al. 2025): an arm to measure protection against. Any other method protects it in the same way, with
continual.imitate=true.
"""

from __future__ import annotations

from recollect.continual.methods.sequential import Sequential


class Sft(Sequential):
    """Adds nothing: that demos take the place of rollouts is decided by the method's name."""
