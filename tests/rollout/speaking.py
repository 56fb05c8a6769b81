"""Engines that sample turns with a small model: one in process, one behind vLLM's HTTP calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from recollect.models.loading import load_policy
from recollect.rollout.sampler import Row, Sampler
from recollect.rollout.turns import Spoken, Turn
from recollect.types import Sampling


def speak(model: Any, stops: Sequence[int], turn: Turn) -> Spoken:
    """Sample one turn with our own sampler, at the chance of the turn's seed."""
    uniforms = np.random.default_rng(turn.seed).random(turn.limit)
    row = Row(list(turn.prompt), uniforms, turn.limit)
    said: list[int] = []

    def end(rows: Sequence[Row]) -> None:
        for each in rows:
            said.extend(each.turn)
            each.done = True

    Sampler(model, stops, 1).run([row], turn.sampling, end)
    return Spoken(said, list(row.logprobs))


@dataclass
class SmallSpeaker:
    """Speaks with a model; `hears` turns are heard at a time, `spoil` says what goes wrong.

    Remembers what was asked and how often weights were renewed.
    """

    model: Any
    stops: Sequence[int]
    hears: int = 3
    spoil: Callable[[Spoken], Spoken] = lambda spoken: spoken
    asked: list[Turn] = field(default_factory=list)
    under_way: dict[int, Turn] = field(default_factory=dict)
    most: int = 0
    renewed: int = 0
    dropped: int = 0
    closed: int = 0
    max_positions: int | None = 400

    def renew(self) -> None:
        self.renewed += 1

    def ask(self, number: int, turn: Turn) -> None:
        assert self.renewed
        assert number not in self.under_way
        self.asked.append(turn)
        self.under_way[number] = turn
        self.most = max(self.most, len(self.under_way))

    def hear(self) -> list[tuple[int, Spoken]]:
        # The newest first: no order of finishing may matter.
        numbers = sorted(self.under_way, reverse=True)[: self.hears]
        return [
            (number, self.spoil(speak(self.model, self.stops, self.under_way.pop(number))))
            for number in sorted(numbers)
        ]

    def drop(self) -> None:
        self.dropped += 1
        self.under_way.clear()

    def close(self) -> None:
        self.closed += 1


class SmallServer:
    """Answers vLLM's calls, as of 0.32, with a small model; `reloaded` are the given paths."""

    def __init__(self, folder: str, stops: Sequence[int], mode: str = "processed_logprobs") -> None:
        self.stops = stops
        self.mode = mode
        self.dev = True
        self.positions = 256
        self.device = "cuda"
        self.repacked = 0
        self.empties = True  # its prefix cache, when asked to
        self.spoil: Callable[[str, Any], Any] = lambda path, document: document
        self.failing = 0  # requests that are answered 503 before the next good one
        self.reloaded: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.tokens: list[str] = []  # bearer tokens that came along
        self.paused = False
        self._lock = threading.Lock()
        self._load(folder)

    def _load(self, folder: str) -> None:
        self._policy = load_policy(folder, device="cpu")

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Give status and document."""
        with self._lock:
            self.calls.append((path, body))
            if self.failing:
                self.failing -= 1
                return 503, {"error": "busy"}
            if path == "/v1/models":
                return 200, {"data": [{"id": "small", "max_model_len": self.positions}]}
            if path == "/v1/completions":
                return self._complete(body)
            if not self.dev:
                return 404, {"detail": "Not Found"}
            return self._develop(path, body)

    def _develop(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/server_info?config_format=json":
            config = {
                "model_config": {"logprobs_mode": self.mode},
                "device_config": {"device": self.device},
            }
            return 200, {"vllm_config": config}
        if path == "/pause?mode=wait":
            self.paused = True
            return 200, {"status": "paused"}
        if path == "/reset_prefix_cache":
            return 200, {"success": self.empties}
        if path == "/resume":
            self.paused = False
            return 200, {"status": "resumed"}
        if path == "/collective_rpc" and body["method"] == "repack_heads":
            self.repacked += 1
            return 200, {"results": [None]}
        if path == "/collective_rpc" and body["method"] == "reload_weights":
            assert self.paused, "weights changed under a request"
            self._load(body["kwargs"]["weights_path"])
            self.reloaded.append(body["kwargs"]["weights_path"])
            return 200, {"results": [None]}
        return 404, {"detail": "Not Found"}

    def _complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        assert not self.paused
        assert body["ignore_eos"]
        assert body["return_token_ids"]
        top_k = max(body["top_k"], 0)
        sampling = Sampling(body["temperature"], body["top_p"], top_k, body["max_tokens"])
        turn = Turn(body["prompt"], body["max_tokens"], body["seed"], sampling)
        spoken = speak(self._policy.model, body["stop_token_ids"], turn)
        choice = {
            "token_ids": list(spoken.tokens),
            "logprobs": {"token_logprobs": list(spoken.logprobs)},
        }
        return 200, {"choices": [choice]}


@contextmanager
def serving(server: SmallServer) -> Iterator[str]:
    """Serve on a free port of this machine; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            server.tokens.append(self.headers.get("Authorization", ""))
            status, document = server.answer(self.path, body)
            document = server.spoil(self.path, document)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
