"""A PostgreSQL server of the tests' own, from Debian's packages, in memory; killed if need be."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import pytest

from recollect.store.address import PostgresAddress

_USER = "recollect"
_SETTINGS = (
    *("listen_addresses=127.0.0.1", "max_connections=60", "shared_buffers=32MB"),
    *("fsync=on", "full_page_writes=on", "synchronous_commit=on", "max_wal_size=64MB"),
    *("logging_collector=off", "restart_after_crash=on"),
)
_schemas = itertools.count()
_ready: list[PostgresAddress] = []  # empty stores, to be used again


def _programs() -> Path | None:
    """Find the folder with initdb and postgres; Debian keeps it out of the PATH."""
    if given := os.environ.get("RECOLLECT_PG_BIN"):
        return Path(given)
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    found = shutil.which("initdb")
    places = [*reversed(debian), *([Path(found).parent] if found else [])]
    return next((place for place in places if (place / "initdb").exists()), None)


class PostgresServer:
    """One server on a free port of this machine, with an empty database."""

    def __init__(self, programs: Path) -> None:
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="recollect-pg-", dir=place))
        # PostgreSQL refuses to run as root; Debian's package brings a user for it.
        self._as = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if self._as:
            shutil.chown(self.folder, "postgres", "postgres")
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._programs = programs
        self._run("initdb", "-D", "data", "-A", "trust", "-U", _USER, "-E", "UTF8", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def address(self, schema: str) -> PostgresAddress:
        """Where the tests' stores are."""
        url = f"postgres://{_USER}:secret@127.0.0.1:{self.port}/postgres"
        return PostgresAddress(url, schema)

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        command = [self._programs / "postgres", "-D", "data", "-p", str(self.port), "-k", "."]
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [*command, *settings],
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_the_tests,  # noqa: PLW1509 (it only makes a system call)
                    **self._as,
                )
            while self._process.poll() is None:
                if self._is_ready():
                    return
                time.sleep(0.02)
            time.sleep(0.05)  # what is left of a killed server must go first
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        """Kill -9: the server and every process of it, as a power cut would."""
        assert self._process is not None
        children = list(_children(self._process.pid))
        for pid in (self._process.pid, *children):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Stop it and remove everything."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_ready(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address("x").url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, **self._as
        )
        assert done.returncode == 0, done.stderr


def _die_with_the_tests() -> None:
    """Have the kernel kill the server when the tests are killed (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _children(parent: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(stat.parent.name)


def new_server() -> PostgresServer:
    """Start a server; skips the test, saying so, where that is not possible."""
    pytest.importorskip("psycopg", reason="NOT TESTED: psycopg is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip("NOT TESTED: no PostgreSQL server (apt-get install postgresql)")
    return PostgresServer(programs)


@lru_cache(maxsize=1)
def shared_server() -> PostgresServer:
    """The server that all tests share which do not kill it."""
    server = new_server()
    atexit.register(_close_in, os.getpid(), server)
    return server


def _close_in(process: int, server: PostgresServer) -> None:
    if os.getpid() == process:  # not in a forked child
        server.close()


@contextmanager
def new_address() -> Iterator[PostgresAddress]:
    """An address at which there is no store yet; what is made there is removed."""
    import psycopg

    address = shared_server().address(f"t{next(_schemas)}")
    yield address
    with psycopg.connect(address.url, autocommit=True) as link:
        link.execute(f"DROP SCHEMA IF EXISTS {address.schema} CASCADE".encode())


@contextmanager
def empty_address() -> Iterator[PostgresAddress]:
    """An address at which there is an empty store: making the tables takes longer than a test."""
    import psycopg

    from recollect.store import open_store
    from recollect.store.tables.schema import LAYOUT

    if _ready:
        address = _ready.pop()
    else:
        address = shared_server().address(f"t{next(_schemas)}")
        open_store(address).close()
    yield address
    tables = ", ".join((*LAYOUT, "given", "receipts", "leases"))
    options = f"-c search_path={address.schema}"
    with psycopg.connect(address.url, autocommit=True, options=options) as link:
        link.execute(f"TRUNCATE {tables}; UPDATE meta SET value = 0".encode())
    _ready.append(address)
