"""`recollect notes serve` as a process: its token, its socket, its end, kill -9 in between."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from recollect.cli.main import app

from .conftest import assert_refused, invoke

TOKEN = "a-token-for-tests-only"


@contextmanager
def serving(store: Path, *options: str, **variables: str) -> Iterator[tuple[Any, str]]:
    command = [sys.executable, "-m", "recollect", "notes", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--store", str(store), *options],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline().strip()  # type: ignore[union-attr]
    finally:
        process.kill()
        process.communicate()


def post(url: str, token: str, call: str, **body: Any) -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}/{call}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def lesson(name: str) -> dict[str, Any]:
    said = [{"role": "user", "content": name}, {"role": "assistant", "content": f"do({name})"}]
    return {"messages": said, "score": 1.0}


def test_what_it_answered_survives_kill_9(tmp_path: Path) -> None:
    store, file = tmp_path / "bank.db", tmp_path / "token"
    with serving(store, "--token-file", str(file)) as (process, url):
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for name in ("alpha", "beta"):
            post(url, token, "summary_task_memory", trajectories=[lesson(name)])
        process.send_signal(signal.SIGKILL)
        process.wait()
    with serving(store, "--token-file", str(file)) as (process, url):
        listed = post(url, token, "vector_store", action="list")["metadata"]["action_result"]
        assert [memory["when_to_use"] for memory in listed] == ["alpha", "beta"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "Stopped." in process.stderr.read()


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with serving(tmp_path / "bank.db", RECOLLECT_NOTES_TOKEN=TOKEN) as (_, url):
        assert url.startswith("http://127.0.0.1:")
        port = int(url.rpartition(":")[2])
        table = Path("/proc/net/tcp")
        if not table.exists():
            pytest.skip("this system has no table of sockets")
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
        mine = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
        assert mine == [f"0100007F:{port:04X}"]
        assert post(url, TOKEN, "retrieve_task_memory", query="x")["success"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--no-token", "--listen", "0.0.0.0"], "loopback"),
        (["--no-token", "--token-file", "x"], "not both"),
        (["--files", "nowhere"], "no folder"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: list[str], why: str) -> None:
    store = str(tmp_path / "b.db")
    done = CliRunner().invoke(app, ["notes", "serve", "--store", store, *options])
    assert done.exit_code == 2
    assert why in done.output
    assert not Path(store).exists()


def test_a_short_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_NOTES_TOKEN", "short")
    done = CliRunner().invoke(app, ["notes", "serve", "--store", str(tmp_path / "b.db")])
    assert done.exit_code == 2
    assert "16 or more" in done.output


def test_what_cannot_be_served_makes_no_store(tmp_path: Path) -> None:
    store = ("--no-token", "--store", tmp_path / "bank.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("notes", "serve", "--port", port, *store)
        assert_refused(result, f"127.0.0.1:{port}", "another port")
    assert invoke("notes", "serve", "--threshold", "nan", *store).exit_code == 2
    assert list(tmp_path.iterdir()) == []
