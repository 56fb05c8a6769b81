"""What verl loads into every process of a run (VERL_USE_EXTERNAL_MODULES): our policy loss."""

from __future__ import annotations

from verl.trainer.ppo.core_algos import register_policy_loss

from recollect.integrations.verl.loss import make_policy_loss, run_config
from recollect.integrations.verl.mapping import LOSS

register_policy_loss(LOSS)(make_policy_loss(run_config))
