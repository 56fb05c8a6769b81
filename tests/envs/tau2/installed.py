"""Whether tau2-bench is here. It is in no registry, so an ordinary installation lacks it."""

from __future__ import annotations

import pytest

from recollect.envs.tau2.package import installed_version
from recollect.errors import MissingTau2


def is_here() -> bool:
    try:
        return installed_version() is not None
    except MissingTau2:
        return False


needs_tau2 = pytest.mark.skipif(
    not is_here(),
    reason="tau2-bench is NOT installed, so nothing of its domains is tested here. "
    "git clone https://github.com/sierra-research/tau2-bench && pip install -e ./tau2-bench",
)
