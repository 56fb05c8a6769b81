"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes depends on who else is at work on the machine, and says nothing of the
# code; pytest's own timeout ends what hangs.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
