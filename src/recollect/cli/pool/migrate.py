"""`recollect pool migrate`: bring a store to the schema of this version."""

from __future__ import annotations

from recollect.cli.output import say, write_json
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path

EPILOG = examples("recollect pool migrate", "recollect pool migrate --store old/store.db --json")


def migrate(store: StoreOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Bring a store of an earlier version up to date.

    Each step is one transaction: killed half-way, the store has its old schema, whole.
    """
    from recollect.store import open_store, schema_of

    path = store_path(store)
    before = schema_of(path)  # refuses a missing or foreign store; makes nothing
    with open_store(path) as writer:
        after = writer.stats().schema
    if as_json:
        write_json({"store": str(path), "from": before, "to": after})
    elif before == after:
        say(f"{path} has schema {after} already; nothing to do.")
    else:
        say(f"{path}: schema {before} -> {after}.")
