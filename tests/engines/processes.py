"""Several real processes of one run, forked from the server that has everything imported."""

from __future__ import annotations

import os
import socket
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from train.processes import cli, start


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells each of its processes."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def ranked_cli(variables: dict[str, str], log: str, arguments: list[str]) -> None:
    """Run the command line as one of several processes."""
    os.environ.update(variables)
    cli(log, arguments)


def start_ranks(log: Path, size: int, *arguments: object) -> list[ForkServerProcess]:
    """Run the command line in several processes; `log`.RANK has what each prints."""
    port, words = free_port(), [str(argument) for argument in arguments]
    return [
        start(ranked_cli, environment(rank, size, port), f"{log}.{rank}", words)
        for rank in range(size)
    ]


def wait(processes: list[ForkServerProcess], seconds: float = 900) -> list[int | None]:
    """Wait for the end of all; those who do not end are killed, and have no code."""
    for process in processes:
        process.join(seconds)
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.exitcode is None:
            process.kill()
            process.join()
    return codes


def run_ranks(log: Path, size: int, *arguments: object) -> None:
    """Run the command line in several processes to its good end."""
    codes = wait(start_ranks(log, size, *arguments))
    said = "\n".join(f"rank {r}: {Path(f'{log}.{r}').read_text()}" for r in range(size))
    assert codes == [0] * size, f"{codes}\n{said}"
