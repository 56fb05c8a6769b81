"""Importing a file into a store: good lines are kept, bad ones reported, all in one transaction."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path

from recollect.errors import BadFile
from recollect.store import jsonl, messages, parquet
from recollect.store.admission import Admission
from recollect.store.base import Store
from recollect.store.fields import nearest
from recollect.store.foreign.reading import FOREIGN, read_foreign
from recollect.store.foreign.sampler import SampledBy
from recollect.store.incoming import DEFAULT_LIMITS, BadLine, Incoming, Limits
from recollect.store.records import Batch
from recollect.types import RunId

__all__ = ["FORMATS", "BadLine", "ImportReport", "Limits", "import_file"]

FORMATS = ("auto", "jsonl", "messages", "parquet", *FOREIGN)
DEFAULT_RUN = RunId("imported")
DEFAULT_ENVIRONMENT = "imported"
SUCCESS_THRESHOLD = 1.0

_KEPT_BAD = 100
_SHOWN_BAD = 3
_BLOCK_LINES = 256
_BLOCK_BYTES = 8 * 2**20
_BUFFER = 256 * 1024
# How files begin that are certainly not lines of text, and what to do with them.
_FOREIGN = {
    b"SQLite format 3\0": ("it is a SQLite file", "Read a store with: recollect pool ls --store"),
    b"\x1f\x8b": ("it is compressed with gzip", "Unpack it first with: gunzip"),
    b"PK\x03\x04": ("it is a zip archive", "Unpack it first with: unzip"),
    b"(\xb5/\xfd": ("it is compressed with zstd", "Unpack it first with: unzstd"),
    b"\xfd7zXZ": ("it is compressed with xz", "Unpack it first with: unxz"),
    b"BZh": ("it is compressed with bzip2", "Unpack it first with: bunzip2"),
    b"\xff\xfe": ("it is UTF-16 text", "Save it as UTF-8 first."),
    b"\xfe\xff": ("it is UTF-16 text", "Save it as UTF-8 first."),
    b"\x80\x04": ("it is a Python pickle", "Pickles are never loaded; export JSON lines instead."),
    parquet.MAGIC: ("it is a Parquet file", "Name the format parquet, or auto."),
}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. `added` and `known` count trajectories.

    `bad` names the first 100 bad lines, `bad_total` counts all. `run` is where rows went that
    do not name their own; None for formats in which all do.
    """

    path: Path
    format: str
    run: RunId | None
    added: int
    known: int
    bad: tuple[BadLine, ...]
    bad_total: int


def import_file(
    store: Store,
    path: Path | str,
    *,
    format: str = "auto",
    run: RunId | None = None,
    environment: str | None = None,
    strict: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    default_reward: float | None = None,
    success_threshold: float | None = None,
    sampled: SampledBy | None = None,
) -> ImportReport:
    """Import a file of trajectories.

    - One transaction: after a crash, a full disk or Ctrl-C nothing of the file is there.
    - Good lines are kept and bad ones reported; with `strict`, one bad line stops everything.
    - Importing again changes nothing: equal records are known. The same id with other
      content is a bad line.
    - Memory is bounded by `limits` and about 120 bytes a record.

    `run`, `environment` (else imported), `default_reward` and `success_threshold` (else 1) speak
    for message rows that do not say it themselves; a row without a reward is refused where there
    is no default. Other projects' rows have rewards of their own, the rest holds for them, too.
    `sampled` says who sampled the tokens of a file of verifiers: without it, rows with log-probs
    come in as demos. What a format has no use for is refused.

    Raises BadFile where the file cannot be used at all, and nothing is changed then.
    """
    path = Path(path)
    unsaid = messages.Unsaid(
        run or DEFAULT_RUN,
        DEFAULT_ENVIRONMENT if environment is None else environment,
        default_reward,
        SUCCESS_THRESHOLD if success_threshold is None else success_threshold,
    )
    given = {
        "environment": environment,
        "default reward": default_reward,
        "success threshold": success_threshold,
    }
    with _open(path) as file:
        chosen, hint = _choose(path, file, format)
        if run is not None and chosen not in ("messages", *FOREIGN):
            why = f"rows in the format {chosen} keep the runs they come from"
            raise BadFile(path, why, "Leave the run out.")
        _refuse_unused(path, chosen, given, sampled)
        tally = _Tally(path, hint, strict, Admission(store))
        if chosen in FOREIGN:
            rows = read_foreign(chosen, path, file, limits, unsaid, sampled)
        else:
            rows = _READERS[chosen](path, file, limits, unsaid)
        store.commit_all(tally.batches(rows))
    named = unsaid.run if chosen in ("messages", *FOREIGN) else None
    bad = tuple(tally.bad)
    return ImportReport(path, chosen, named, tally.added, tally.known, bad, tally.bad_total)


def _refuse_unused(
    path: Path, chosen: str, given: Mapping[str, object], sampled: SampledBy | None
) -> None:
    """Refuse what would be ignored: whoever gave it thinks that it counts."""
    if chosen not in ("messages", *FOREIGN):
        for name in (name for name, value in given.items() if value is not None):
            why = f"rows in the format {chosen} say it all themselves"
            raise BadFile(path, why, f"Leave the {name} out.")
    if given["default reward"] is not None and chosen in FOREIGN:
        why = f"rows in the format {chosen} have rewards of their own"
        raise BadFile(path, why, "Leave the default reward out.")
    if sampled is not None and chosen != "verifiers":
        why = f"nobody has to say who sampled rows in the format {chosen}"
        raise BadFile(path, why, "Leave the model out.")


_READERS: dict[
    str, Callable[[Path, BufferedReader, Limits, messages.Unsaid], Iterator[Incoming | BadLine]]
] = {
    "jsonl": lambda path, file, limits, _: jsonl.read(path, file, limits),
    "messages": messages.read,
    "parquet": lambda path, _, limits, __: parquet.read(path, limits),
}


class _Tally:
    """Turns lines into batches and keeps count; refuses files of which nothing may be kept."""

    def __init__(self, path: Path, hint: str, strict: bool, admission: Admission) -> None:
        self._path = path
        self._hint = hint
        self._strict = strict
        self._admission = admission
        self._good = 0
        self.added = 0
        self.known = 0
        self.bad: list[BadLine] = []
        self.bad_total = 0

    def batches(self, lines: Iterator[Incoming | BadLine]) -> Iterator[Batch]:
        """Yield what may be committed; raising here rolls everything back."""
        for block in _blocks(lines):
            admitted = self._admission.consider([x for x in block if isinstance(x, Incoming)])
            self.added += len(admitted.trajectories)
            self.known += admitted.known
            self._good += admitted.good
            self._report([*admitted.bad, *(x for x in block if isinstance(x, BadLine))])
            batch = admitted.batch()
            if batch is not None:
                yield batch
        if self.bad_total and not self._good:
            why = f"none of its {self.bad_total:,} lines can be imported ({self._first()})"
            raise BadFile(self._path, why, self._hint)

    def _report(self, bad: list[BadLine]) -> None:
        self.bad_total += len(bad)
        room = max(0, _KEPT_BAD - len(self.bad))
        self.bad.extend(sorted(bad, key=lambda line: line.line)[:room])
        if bad and self._strict:
            why = f"it has bad lines, and nothing was imported ({self._first()})"
            raise BadFile(self._path, why, "Correct them, or import without strict.")

    def _first(self) -> str:
        return "; ".join(str(line) for line in self.bad[:_SHOWN_BAD])


def _blocks(lines: Iterator[Incoming | BadLine]) -> Iterator[list[Incoming | BadLine]]:
    """Cut lines into blocks that fit in memory."""
    block: list[Incoming | BadLine] = []
    size = 0
    for line in lines:
        block.append(line)
        size += line.size if isinstance(line, Incoming) else 0
        if len(block) == _BLOCK_LINES or size > _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


# -- looking at the file --------------------------------------------------------------------


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise BadFile(path, "it is a folder", "Name a file in it.")
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise BadFile(path, "it is neither a file nor a pipe")
        file: BufferedReader = BufferedReader(FileIO(path), _BUFFER)
    except FileNotFoundError:
        raise BadFile(path, "there is no such file") from None
    except OSError as error:
        raise BadFile(path, f"it cannot be read ({error.strerror or error})") from error
    except ValueError as error:  # a NUL in the name
        raise BadFile(repr(str(path)), f"it is not a file name ({error})") from None
    with file:
        yield file


def _choose(path: Path, file: BufferedReader, format_: str) -> tuple[str, str]:
    """Return the format to read and, for files in which nothing is good, what may be wrong."""
    if format_ not in FORMATS:
        guess = nearest(format_, FORMATS)
        hint = f"Did you mean {guess!r}? " if guess else ""
        raise BadFile(path, f"{format_!r} is not a format", f"{hint}Known: {', '.join(FORMATS)}.")
    try:
        head = file.peek(_BUFFER)
    except OSError as error:
        raise BadFile(path, f"it cannot be read ({error.strerror or error})") from error
    if not head:
        raise BadFile(path, "it is empty")
    if head.startswith(parquet.MAGIC) and format_ in ("auto", "parquet", "trl"):
        if not file.seekable():
            raise BadFile(path, "Parquet cannot be read from a pipe", "Name the file itself.")
        return "trl" if format_ == "trl" else "parquet", ""
    for magic, (why, hint) in _FOREIGN.items():
        if head.startswith(magic):
            raise BadFile(path, why, hint)
    if format_ in ("parquet", "trl"):
        raise BadFile(path, "it is not a Parquet file")
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if format_ == "auto" and jsonl.is_header(start.partition(b"\n")[0]):
        return "jsonl", ""
    return ("messages" if format_ == "auto" else format_), _looks(start, b"\0" in head, format_)


def _looks(start: bytes, is_binary: bool, format_: str) -> str:
    """Say what a file may be in which no line is good."""
    if is_binary:
        return "It looks like a binary file."
    if start.startswith(b"["):
        return "It looks like one JSON array; write one object per line, e.g. with: jq -c '.[]'"
    if format_ in FOREIGN:
        return f"It does not look like what {format_} writes: name another file, or its format."
    return "It looks like neither messages nor an export of Recollect."
