"""The files that a run under verl has beside those of any run: RUN/verl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from recollect.canonical import Json, canonical_json
from recollect.errors import BadFile, RecollectError
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.mapping import AGENT, Assignment
from recollect.store.publishing import publishing

T = TypeVar("T")
_AGENT_LOOP = "recollect.integrations.verl.agent_loop.RecollectAgentLoop"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the driver ended: at a signal, with an error, or (neither) at the last step."""

    signal: int | None = None
    error: str = ""
    hint: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Screen:
    """How much a user wants to see: every metric, and how many steps between lines."""

    verbose: bool = False
    log_interval: int | None = None


WHOLE = Screen()


class Workplace:
    """Names and contents of the files in RUN/verl."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.folder = run / "verl"

    @property
    def stop(self) -> Path:
        """Holds the number of a signal once the run is to stop after its step."""
        return self.folder / "stop"

    @property
    def lines(self) -> Path:
        """What the driver says, for the screen of whoever started it."""
        return self.folder / "lines"

    @property
    def log(self) -> Path:
        """What verl and Ray print."""
        return self.folder / "log"

    def weights(self, server: int) -> Path:
        """Where a server on a CPU writes how far its weights moved with each version."""
        return self.folder / f"weights-{server}.jsonl"

    @property
    def _cluster(self) -> Path:
        return self.folder / "cluster.json"

    @property
    def _screen(self) -> Path:
        return self.folder / "screen.json"

    @property
    def _ending(self) -> Path:
        return self.folder / "ending.json"

    def prepare(
        self, cluster: Cluster, settings: Sequence[Assignment], screen: Screen = WHOLE
    ) -> None:
        """Write what verl and a later resume read; forget how the run ended before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        told: Json = [[each.key, each.value, each.source] for each in settings]
        _write(self.folder / "settings.json", canonical_json(told))
        _write(self.folder / "agent.yaml", f"- name: {AGENT}\n  _target_: {_AGENT_LOOP}\n")
        _write(self._screen, canonical_json(asdict(screen)))
        _write(self._cluster, canonical_json(asdict(cluster)))  # last: a resume looks for it
        self.stop.unlink(missing_ok=True)
        self.lines.unlink(missing_ok=True)
        self._ending.unlink(missing_ok=True)

    def cluster(self) -> Cluster | None:
        """The machines that the run was last started on; None for a run without verl."""
        if not self._cluster.is_file():
            return None
        return _read(self._cluster, Cluster, "Start a new run, or restore the file from a copy.")

    def screen(self) -> Screen:
        """What whoever started the run wants to see."""
        return _read(self._screen, Screen, "Go on with: recollect resume RUN, which writes it.")

    def end(self, ending: Ending) -> None:
        """Write down how the driver ended."""
        _write(self._ending, canonical_json(asdict(ending)))

    def ending(self) -> Ending | None:
        """How the driver ended; None if it never said so."""
        if not self._ending.is_file():
            return None
        return _read(self._ending, Ending, f"See how it ended in {self.log}.")


def _write(path: Path, text: str) -> None:
    """Write a file as a whole; one that says so already is left alone."""
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return
    with publishing(path, overwrite=True) as sink:
        sink.write(data)


def _read(path: Path, kind: type[T], hint: str) -> T:
    """Read a record back; BadFile where the file was torn or edited."""
    try:
        return kind(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadFile(path, f"cannot be read ({error})", hint) from error


def ending_of(error: RecollectError) -> Ending:
    """Write an error as the end of a run."""
    return Ending(error=error.what, hint=error.hint, exit_code=error.exit_code)
