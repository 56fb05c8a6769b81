"""AgentEvolver's experience replay interface (seed 000's names) on a Recollect store and pool.

Importing this needs no torch; the functions that make or take tensors load it when called.
How to wire it into the host's loop, and what differs: docs/agentevolver.md.
"""

from __future__ import annotations

from recollect.integrations.agentevolver.conversion import (
    PaddedBatch,
    get_extra,
    samples_to_dataproto,
)
from recollect.integrations.agentevolver.failures import (
    GroupChanged,
    RowMismatch,
    StepOutOfOrder,
)
from recollect.integrations.agentevolver.host import HostRow, HostTask, read_row
from recollect.integrations.agentevolver.intake import Saved
from recollect.integrations.agentevolver.manager import ExperienceManager
from recollect.integrations.agentevolver.mixing import ExperienceMixCollateFn
from recollect.integrations.agentevolver.replacement import (
    Replacement,
    replace_recorded_old_log_probs,
)
from recollect.integrations.agentevolver.sample import Sample
from recollect.integrations.agentevolver.settings import ExperienceSettings

__all__ = [
    "ExperienceManager",
    "ExperienceMixCollateFn",
    "ExperienceSettings",
    "GroupChanged",
    "HostRow",
    "HostTask",
    "PaddedBatch",
    "Replacement",
    "RowMismatch",
    "Sample",
    "Saved",
    "StepOutOfOrder",
    "get_extra",
    "read_row",
    "replace_recorded_old_log_probs",
    "samples_to_dataproto",
]
