"""Lineage: how many policy versions of the runs whose rows it inherited lie before a run began.

It is an event of the run's step 0, which no fence sets aside: ages are the same after a resume,
and whatever has left the pool since.
"""

from __future__ import annotations

from collections.abc import Mapping

from recollect.ledger import Event
from recollect.store.base import StoreReader
from recollect.types import RunId

_KIND = "pool_inherited"


def inherited_from(store: StoreReader) -> dict[RunId, int]:
    """Count the versions of each run of a store that lie before a run that begins with its rows.

    A run there counts as ended when the new one begins; those that it had inherited from itself
    lie before it by as much as it noted.
    """
    ended = {run.id: _reached(store, run.id) for run in store.runs().values()}
    found = dict(ended)
    for heir, versions in ended.items():
        for run, before in noted(store, heir).items():
            found[run] = max(found.get(run, 0), before + versions)
    return found


def note(run: RunId, versions: Mapping[RunId, int]) -> Event:
    """Write down what lies before a run."""
    return Event(
        run, 0, _KIND, {"versions": {str(name): count for name, count in versions.items()}}
    )


def noted(store: StoreReader, run: RunId) -> dict[RunId, int]:
    """Read what lies before a run; nothing where it inherited no rows."""
    found: dict[RunId, int] = {}
    for event in store.events(run, 0):
        versions = event.data.get("versions")
        if event.kind == _KIND and isinstance(versions, Mapping):
            found |= {RunId(name): int(str(count)) for name, count in versions.items()}
    return found


def _reached(store: StoreReader, run: RunId) -> int:
    """The version a run has come to: all of its rows are older than what follows."""
    cursor, newest = store.cursor(run), store.newest_version(run)
    return max(cursor.policy_version if cursor else 0, 0 if newest is None else newest + 1)
