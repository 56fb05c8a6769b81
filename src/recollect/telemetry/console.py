"""Plain output: whole lines, no escape codes, for pipes, logs and those who prefer it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from recollect.telemetry.events import EpisodeFinished, Event, MinibatchFinished, PhaseStarted
from recollect.telemetry.motion import Motion
from recollect.telemetry.narrator import Narrator

_MOVES = (PhaseStarted, EpisodeFinished, MinibatchFinished)


class PlainConsole:
    """Writes lines to a stream and flushes each.

    Inside a long step a line about its motion follows after `patience` seconds of silence.
    """

    def __init__(
        self,
        stream: TextIO,
        narrator: Narrator,
        patience: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._narrator = narrator
        self._patience = patience
        self._clock = clock
        self._motion = Motion(clock)
        self._spoke = clock()

    def emit(self, event: Event) -> None:
        """Write what there is to say."""
        self._motion.follow(event)
        for line in self._narrator.lines(event):
            self._write(line.text)
        if isinstance(event, _MOVES) and self._clock() - self._spoke >= self._patience:
            self._write(self._motion.line())

    def close(self) -> None:
        """Leave the stream open: it is the caller's."""

    def _write(self, text: str) -> None:
        self._stream.write(encodable(text, self._stream.encoding) + "\n")
        self._stream.flush()
        self._spoke = self._clock()


def encodable(text: str, encoding: str | None) -> str:
    """Replace what a stream cannot spell, so that a ± never ends anybody's output."""
    name = encoding or "utf-8"
    return text.encode(name, "replace").decode(name)
