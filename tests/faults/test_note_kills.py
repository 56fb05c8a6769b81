"""Exact resume of runs with notes: after kill -9 the same notes enter at the same steps.

The distiller writes in other threads, and at an endpoint in another process, while the run trains;
whenever the run is killed, it ends with the notes, credits and weights of a run that nobody
disturbed. The children are real processes that run the real command line.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from recollect.proof.traces import trace
from recollect.store import open_reader
from recollect.telemetry.reading import read_metrics
from recollect.types import RunId
from train.noted import GUIDED
from train.replays import EVERYTHING
from train.small import make_model

from .killing import Trace, Undisturbed, kill_and_compare

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

STEPS = 7
RUN = RunId("run")
BASE = (
    f"run.steps={STEPS}",
    "checkpoint.every=3",
    "eval.every=0",
    "run.name=run",
    "environment.tasks=5",
    "train.learning_rate=0.02",
    *GUIDED,
    "notes.train=hybrid",
    "notes.retire_rows=4",
    "distill.every=1",
    "distill.max_similarity=0.95",
)
# Answers are under way at every checkpoint; stored rows with notes come back.
RULES = (*BASE, *EVERYTHING, "distill.delay=2", "notes.min_ess=0.9")
POLICY = (*BASE, "distill.by=policy", "distill.delay=3", "distill.max_tokens=12")


class Endpoint(ThreadingHTTPServer):
    """A server that answers late, and always the same to the same question."""

    daemon_threads = True
    asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        name = hashlib.sha256(body).hexdigest()
        time.sleep(int(name[:2], 16) / 2000)
        said = {"when_to_use": "Letters", "content": f"say {name[:6]} {name[6:9]}"}
        answer = {"choices": [{"message": {"content": json.dumps(said)}}]}
        data = json.dumps(answer).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            return  # whoever asked was killed

    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def asking(endpoint: Endpoint) -> tuple[str, ...]:
    url = f"http://127.0.0.1:{endpoint.server_port}/v1"
    return (*BASE, "distill.by=endpoint", "distill.delay=2", f"distill.url={url}")


def whole_trace(folder: Path) -> Trace:
    """Everything that must be the same: also notes, their links, marks and trials."""
    found = trace(folder)
    with open_reader(folder / "store.db") as store:
        found["notes"] = store.notes()
        found["links"] = sorted(store.links(), key=lambda link: (link.note, link.trajectory))
        found["note_marks"] = store.note_marks()
        found["note_trials"] = store.note_trials()
    return found


def kill_and_check(
    model: Path, folder: Path, flags: tuple[str, ...], kills: int, least: int = 3
) -> None:
    expected = Undisturbed(model, folder / "whole", whole_trace)[flags]
    assert len(expected["notes"]) >= least, "too little is learnt to mean anything"
    lines = read_metrics(folder / "whole" / "0" / "run").steps
    assert sum(line.metrics["notes/guided"] for line in lines) >= 2 * least
    assert sum(line.metrics["notes/stripped"] for line in lines) >= least
    kill_and_compare(model, folder, flags, kills, expected, whole_trace, "note kills")


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.long)])
def test_killed_while_rules_write(model: Path, tmp_path: Path, kills: int) -> None:
    kill_and_check(model, tmp_path, RULES, kills)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_killed_while_an_endpoint_writes(
    model: Path, tmp_path: Path, endpoint: Endpoint, kills: int
) -> None:
    kill_and_check(model, tmp_path, asking(endpoint), kills)
    assert endpoint.asked > 0


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_while_the_policy_writes(tmp_path: Path, kills: int) -> None:
    """It reads letter by letter: a question about two attempts needs more room than they had."""
    far = make_model(tmp_path / "model")
    config = json.loads((far / "config.json").read_text())
    (far / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    kill_and_check(far, tmp_path, POLICY, kills, least=1)
