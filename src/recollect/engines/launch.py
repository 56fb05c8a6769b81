"""Being one of several processes that a launcher (torchrun, accelerate launch) has started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from recollect.errors import RecollectError
from recollect.train.ranks import ALONE, Ranks


def world_size(environment: Mapping[str, str] = os.environ) -> int:
    """How many processes the launcher has started; 1 where there is no launcher."""
    return int(environment.get("WORLD_SIZE") or 1) if "RANK" in environment else 1


def together(work: Callable[[Ranks], None]) -> None:
    """Do some work with all processes there are: rank 0 does it, and the others help.

    In every other process it returns when rank 0 is done. Where the work raises, or a process is
    lost, all processes end with a message.
    """
    if world_size() < 2:
        work(ALONE)
        return
    # Only here, because whoever is alone does without.
    from recollect.engines.helping import help_out
    from recollect.engines.leading import Leader
    from recollect.engines.link import Link

    link = Link()
    try:
        if link.rank:
            help_out(link)
            return
        leader = Leader(link)
        try:
            work(leader)
        except BaseException as error:
            # Codes of a clean exit are numbers; they are the caller's to give.
            clean = getattr(error, "exit_code", None) in (0, 129, 130, 143)
            leader.end(None if clean else _why(error))
            raise
        leader.end(None)
    finally:
        link.close()


def _why(error: BaseException) -> str:
    what = error.what if isinstance(error, RecollectError) else repr(error)
    return f"The run has ended on rank 0: {what}"
