"""Methods against forgetting, one file each, by the names that `continual.method` takes."""

from __future__ import annotations

from recollect.continual.methods.adaptive_fusion import AdaptiveFusion
from recollect.continual.methods.adaptive_replay import AdaptiveReplay
from recollect.continual.methods.dynamic_expansion import DynamicExpansion
from recollect.continual.methods.ewc import Ewc
from recollect.continual.methods.ewc_pp import EwcPlusPlus
from recollect.continual.methods.fusion import Fusion
from recollect.continual.methods.kl_anchor import KlAnchor
from recollect.continual.methods.online_ewc import OnlineEwc
from recollect.continual.methods.progressive import Progressive
from recollect.continual.methods.replay import Replay
from recollect.continual.methods.sequential import Sequential
from recollect.continual.methods.sft import Sft

METHODS: dict[str, type[Sequential]] = {
    "sequential": Sequential,
    "replay": Replay,
    "adaptive_replay": AdaptiveReplay,
    "ewc": Ewc,
    "online_ewc": OnlineEwc,
    "ewc_pp": EwcPlusPlus,
    "kl_anchor": KlAnchor,
    "progressive": Progressive,
    "dynamic_expansion": DynamicExpansion,
    "fusion": Fusion,
    "adaptive_fusion": AdaptiveFusion,
    "sft": Sft,
}
