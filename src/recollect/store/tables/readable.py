"""Naming what a damaged row or an impossible value raises while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from recollect.errors import BadQuery, InvalidRecord, StoreDamaged, StoreFailed
from recollect.store.address import Place


@contextmanager
def readable(place: Place) -> Iterator[None]:
    """Raise our error for what Python makes of a damaged row or a value that no row can have."""
    try:
        yield
    except (UnicodeEncodeError, OverflowError) as error:
        why = f"it holds a value that no row can have ({error})"
        hint = "Give whole numbers that fit 64 bits, and text that can be written as UTF-8."
        raise BadQuery(place, why, hint) from error
    except UnicodeDecodeError as error:
        # SQLite complains about a damaged schema by quoting it, which sqlite3 cannot decode.
        raise StoreDamaged(place, "it holds text that is not UTF-8") from error
    except (LookupError, ValueError, TypeError, InvalidRecord) as error:
        raise StoreDamaged(place, f"a row cannot be read ({error})") from error
    except OSError as error:
        raise StoreFailed(place, error.strerror or str(error)) from error
