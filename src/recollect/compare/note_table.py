"""The notes that the runs of a study used most, and what they did."""

from __future__ import annotations

from recollect.compare.spelling import points, share
from recollect.compare.study import Study
from recollect.compare.tables import TextTable
from recollect.ledger import Note
from recollect.notes.credit import Credit
from recollect.notes.store_bank import StoreBank
from recollect.store import open_reader
from recollect.train.folder import RunFolder

_MOST = 5  # notes of an arm
_CHARS = 80
TITLES = ("note", "arm", "attempts", "with it", "without", "gain", "share of uses")


def note_table(study: Study) -> TextTable:
    """One row per note: the most used ones of each arm, over its seeds."""
    rows: list[tuple[str, ...]] = []
    for result in study.arms:
        found = [
            each for run in result.runs for each in _credits(RunFolder(run.path)) if each[1].rows
        ]
        found.sort(key=lambda each: (-each[1].rows, each[0].id))
        rows += [_row(note, credit, result.arm.name) for note, credit in found[:_MOST]]
    return TextTable(TITLES, tuple(rows))


def _credits(folder: RunFolder) -> list[tuple[Note, Credit]]:
    path = folder.path / "store.db"  # every run of a study has a store of its own
    if not path.is_file():
        return []
    with open_reader(path) as reader:
        bank = StoreBank(reader)
        credit = bank.credits()
        return [(note, credit[note.id]) for note in bank.notes() if note.id in credit]


def _row(note: Note, credit: Credit, arm: str) -> tuple[str, ...]:
    words = " ".join((note.when_to_use or note.content).split())
    name = words if len(words) <= _CHARS else words[:_CHARS] + "..."
    gain = "-"
    if credit.gain is not None and credit.gain_interval is not None:
        low, high = credit.gain_interval
        gain = f"{points(credit.gain)} [{points(low)}, {points(high)}]"
    return (
        f"{note.id[:8]} {name}",
        arm,
        str(credit.rows),
        _share(credit.rate),
        _share(credit.bare_rate),
        gain,
        _share(credit.share),
    )


def _share(rate: float | None) -> str:
    return "-" if rate is None else share(rate)
