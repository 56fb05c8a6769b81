"""Serving until somebody ends it: what the commands that serve have in common."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from recollect.wire.server import JsonServer


def check_threshold(value: float) -> None:
    """Refuse a --threshold that no reward can be compared with."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number", param_hint="--threshold")


@contextmanager
def served(server: JsonServer, name: str) -> Iterator[None]:
    """Serve in a thread of that name; leaving stops, when what is being answered is answered."""
    thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.close()


def wait_for_the_end() -> None:
    """Wait for Ctrl-C, SIGTERM or the terminal to close."""
    ended = threading.Event()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # One that the process was told to ignore (nohup) stays ignored.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: ended.set())
    ended.wait()
