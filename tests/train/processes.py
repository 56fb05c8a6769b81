"""Children to kill: forked from a server that has everything imported, so that they start fast.

The server is the standard library's: it has one thread, which makes forking safe, and children
get the signal handlers of an ordinary process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

_PRELOAD = [
    "pytest",
    "peft",
    "transformers.models.llama.modeling_llama",
    "recollect.cli.main",
    "recollect.train.loop",
]


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def start(target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Run a function of a module in a child."""
    process = _context().Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def start_cli(log: Path, *arguments: object) -> ForkServerProcess:
    """Run the command line in a child; what it prints is appended to `log`."""
    return start(cli, str(log), [str(argument) for argument in arguments])


def run_cli(log: Path, *arguments: object, seconds: float = 60) -> int:
    """Run the command line in a child to its end, and return its exit code."""
    process = start_cli(log, *arguments)
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError(f"{arguments} did not end within {seconds} s:\n{log.read_text()}")
    return process.exitcode


def cli(log: str, arguments: list[str]) -> None:
    """Run the command line in this process, which ends with it."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["recollect", *arguments]
    from recollect.cli.main import main

    main()
