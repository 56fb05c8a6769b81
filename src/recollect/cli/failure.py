"""How a command fails: one sentence, the next step, an exit code, no traceback.

0 fine, 1 findings (damage, lines that could not be imported), 2 an error (or a bug of ours),
130 interrupted, 141 nobody reads our output any more (as if SIGPIPE had ended us).
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import typer

from recollect.cli.untrusted import visible
from recollect.errors import RecollectError
from recollect.redaction import redact, redact_text

FINDINGS = 1
ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
_FILES = "Check the path, its permissions and space."
_NETWORK = "Check the address, and that something listens there and answers."
# How typer itself ends a command; the last is click's base of all that is wrong with arguments.
_OWN: tuple[type[Exception], ...] = (
    typer.Exit,
    typer.Abort,
    cast("type[Exception]", typer.BadParameter.__mro__[2]),
)


@contextmanager
def failures_reported() -> Iterator[None]:
    """Turn known failures of a command into words on stderr and `typer.Exit`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, where a reader that went away is still our business
    except RecollectError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            _discard_output()
            raise typer.Exit(BROKEN_PIPE) from error
        report(error.what, error.hint)
        raise typer.Exit(error.exit_code) from error
    except KeyboardInterrupt as error:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from error
    except BrokenPipeError as error:
        _discard_output()
        raise typer.Exit(BROKEN_PIPE) from error
    except OSError as error:
        _flush_or_discard()
        named = f"{error.filename}: " if error.filename else ""
        report(f"{named}{error.strerror or error}.", _NETWORK if _is_network(error) else _FILES)
        raise typer.Exit(ERROR) from error
    except _OWN:
        raise
    except Exception as error:
        _flush_or_discard()
        _report_bug(error)
        raise typer.Exit(ERROR) from error


def report(what: str, hint: str) -> None:
    """Say what happened and, indented below, what to do next."""
    typer.echo(f"error: {visible(what)}", err=True)
    if hint:
        typer.echo(f"  {visible(hint)}", err=True)


def _is_network(error: OSError) -> bool:
    """Tell an error of a connection from one of a file, which has a name."""
    kinds = (ConnectionError, TimeoutError, socket.gaierror, socket.herror)
    numbers = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRINUSE, errno.EADDRNOTAVAIL)
    return error.filename is None and (isinstance(error, kinds) or error.errno in numbers)


def _report_bug(error: Exception) -> None:
    """Say that the fault is ours, and keep the traceback for whoever mends it."""
    text = redact("".join(traceback.format_exception(error)))
    try:
        descriptor, place = tempfile.mkstemp(prefix="recollect-crash-", suffix=".log", text=True)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as sink:
            sink.write(text)
        hint = f"Please report it, with the traceback in {place}"
    except OSError:
        typer.echo(text, err=True)
        hint = "Please report it, with the traceback above."
    said = redact_text(f"{type(error).__name__}: {error}", most=300).rstrip(".: ")
    report(f"This is a bug in Recollect: {said}.", hint)


def _flush_or_discard() -> None:
    """Let out what was written before the failure, unless stdout itself is what failed."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    """Send what stdout still buffers nowhere, or the interpreter would complain at its end."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
