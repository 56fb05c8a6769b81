"""`recollect serve policy` in a process of its own, asked by a plain HTTP request."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from recollect.store import open_reader
from recollect.store.records import Query
from train.processes import start_cli

from .conftest import assert_refused, invoke


def _post(url: str, body: object) -> dict[str, object]:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        found: dict[str, object] = json.load(reply)
    return found


def _url(log: Path, seconds: float = 60) -> str:
    """Wait for the address that it prints first."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if log.exists() and (lines := log.read_text().splitlines()):
            return next(line for line in lines if line.startswith("http"))
        time.sleep(0.05)
    raise AssertionError("nothing is served")


@pytest.mark.parametrize(
    ("end", "given", "file"),
    [
        (signal.SIGINT, "served.db", "served.db"),
        (signal.SIGTERM, "new/", "new/store.db"),  # a folder stands for its store
    ],
)
def test_it_answers_records_and_ends_when_told(
    tmp_path: Path, end: signal.Signals, given: str, file: str
) -> None:
    log, store = tmp_path / "log", tmp_path / file
    process = start_cli(log, "serve", "policy", "tiny", "--store", f"{tmp_path}/{given}")
    try:
        url = _url(log)
        assert url.startswith("http://127.0.0.1:")
        question = [{"role": "user", "content": "Hello."}]
        found = _post(f"{url}/chat/completions", {"messages": question, "max_tokens": 6})
        _post(f"{url}/trajectories/{found['id']}", {"reward": 1})
    finally:
        assert process.pid is not None
        os.kill(process.pid, end)
        process.join(30)
    assert process.exitcode == 0, log.read_text()
    assert "Stopped." in log.read_text()
    with open_reader(store) as reader:
        (row,) = reader.rows(Query(), None, 10).rows
    assert row.reward == 1.0


def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    store = tmp_path / "served.db"
    result = invoke("serve", "policy", str(tmp_path / "nothing"), "--store", store)
    assert_refused(result, "there is neither a run nor a model", "recollect runs ls")
    empty = tmp_path / "empty"
    empty.mkdir()
    result = invoke("serve", "policy", str(empty), "--store", store)
    assert_refused(result, "cannot be loaded", "a run's folder")
    empty.rmdir()
    result = invoke("serve", "policy", "tiny", "--set", "user=solo", "--store", store)
    assert_refused(result, "no option user", "--env")
    assert_refused(invoke("serve", "policy", "tiny", "--env", "desk", "--set", "user=solo"), "user")
    wrong = invoke("serve", "policy", "tiny", "--port", 70_000, "--store", store)
    assert wrong.exit_code == 2
    assert "65535" in wrong.stderr
    nan = invoke("serve", "policy", "tiny", "--threshold", "nan", "--store", store)
    assert (nan.exit_code, "--threshold" in nan.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("serve", "policy", "tiny", "--port", port, "--store", store)
        assert_refused(result, f"127.0.0.1:{port}", "another port")
    assert list(tmp_path.iterdir()) == []  # what cannot be served makes no store
