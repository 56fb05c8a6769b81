"""Which commit of a hub model a run began with: a name alone means something else tomorrow."""

from __future__ import annotations

from pathlib import Path

from recollect.models.catalog import folder_of


def newest_revision(name: str) -> str | None:
    """Find the commit that a hub id stands for now, in the cache or, unless offline, on the hub.

    None for models of ours, for folders, and where it cannot be told: loading will say why.
    """
    if folder_of(name) is not None or Path(name).expanduser().exists():
        return None
    from transformers.utils.hub import cached_file, extract_commit_hash

    try:
        found = cached_file(name, "config.json")
    except (OSError, ValueError):
        return None
    return None if found is None else extract_commit_hash(str(found), None)
